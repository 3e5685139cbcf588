#include "checkpoint/run/candidates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "checkpoint/run/local_tier.hpp"

namespace trainyard::checkpoint {
namespace {

const Identity resumer{.job = "team/a", .job_uid = "uid-a", .attempt = 3, .fingerprint = "fashion"};

Claim claim_of(std::int64_t generation, std::optional<CheckpointId> resumed_from, bool is_open = false) {
  return {.generation = generation,
          .identity = resumer,
          .resumed_from = resumed_from,
          .time = {},
          .nonce = "n" + std::to_string(generation),
          .is_open = is_open};
}

Copy copy(std::int64_t step, std::int64_t generation) {
  return {.id = {step, generation},
          .nonce = "n" + std::to_string(generation) + "-" + std::to_string(step),
          .identity = resumer};
}

Candidate remote(std::int64_t step, std::int64_t generation) {
  return {.id = {step, generation}, .nonce = {}, .keepers = {}};
}

Candidate on(std::vector<std::int64_t> keepers, const Copy& held) {
  return {.id = held.id, .nonce = held.nonce, .keepers = std::move(keepers)};
}

// Two generations, of which the second resumed from step 100 of the first.
const std::vector<Claim> claims{claim_of(1, std::nullopt), claim_of(2, CheckpointId{100, 1})};

TEST(KeepersOf, NamesTheFirstRankOfEachNode) {
  const std::vector<std::string> names{"a", "b", "a", "c", "b"};
  EXPECT_EQ(keepers_of(names), (std::vector<std::int64_t>{0, 1, 0, 3, 1}));
}

TEST(KeepersOf, MakesOneNodeOfEqualNames) {
  EXPECT_EQ(keepers_of(std::vector<std::string>{"a", "a"}), (std::vector<std::int64_t>{0, 0}));
}

struct Choice {
  std::string name;
  std::vector<CheckpointId> remote;
  CopiesByKeeper copies;
  std::vector<Candidate> best_first;
};

class OrderCandidates : public testing::TestWithParam<Choice> {};

TEST_P(OrderCandidates, PutsTheBestLast) {
  std::vector<Candidate> expected = GetParam().best_first;
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(order_candidates(GetParam().remote, GetParam().copies, claims, resumer), expected) << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    OfBothTiers, OrderCandidates,
    testing::Values(
        Choice{"nothing", {}, {}, {}}, Choice{"no copies", {{50, 1}, {100, 1}}, {}, {remote(100, 1), remote(50, 1)}},
        Choice{"no remote one", {}, {{0, {copy(130, 2)}}}, {on({0}, copy(130, 2))}},
        Choice{"a newer copy", {{120, 2}}, {{0, {copy(130, 2)}}}, {on({0}, copy(130, 2)), remote(120, 2)}},
        Choice{"an older copy", {{140, 2}}, {{0, {copy(130, 2)}}}, {remote(140, 2), on({0}, copy(130, 2))}},
        Choice{"an equal copy", {{130, 2}}, {{0, {copy(130, 2)}}}, {on({0}, copy(130, 2)), remote(130, 2)}},
        Choice{
            "an equal step of a later run", {{100, 2}}, {{0, {copy(100, 1)}}}, {remote(100, 2), on({0}, copy(100, 1))}},
        Choice{"copies of one save on two nodes",
               {},
               {{0, {copy(130, 2)}}, {3, {copy(130, 2)}}},
               {on({0, 3}, copy(130, 2))}},
        Choice{"copies of two saves",
               {},
               {{0, {copy(130, 2)}}, {3, {copy(120, 2), copy(130, 2)}}},
               {on({0, 3}, copy(130, 2)), on({3}, copy(120, 2))}},
        Choice{"a copy up to which a later run went", {}, {{0, {copy(100, 1)}}}, {on({0}, copy(100, 1))}},
        Choice{"a copy beyond that", {{100, 1}}, {{0, {copy(110, 1)}}}, {remote(100, 1)}},
        Choice{"a copy of a generation that nobody claimed", {}, {{0, {copy(130, 3)}}}, {}}));

// Every subset of three nodes is lost, of which all hold step 130 and the first also 140.
TEST(OrderCandidates, OffersWhatAnyNodeThatIsLeftHolds) {
  for (unsigned lost = 0; lost < 8; ++lost) {
    CopiesByKeeper copies;
    std::vector<std::int64_t> left;
    for (unsigned node = 0; node < 3; ++node) {
      if ((lost >> node & 1U) != 0) continue;
      left.push_back(node);
      copies[node] = {copy(130, 2)};
      if (node == 0) copies[node].push_back(copy(140, 2));
    }
    std::vector<Candidate> expected{remote(120, 2)};
    if (!left.empty()) expected.push_back(on(left, copy(130, 2)));
    if (!left.empty() && left.front() == 0) expected.push_back(on({0}, copy(140, 2)));
    EXPECT_EQ(order_candidates(std::vector<CheckpointId>{{120, 2}}, copies, claims, resumer), expected) << lost;
  }
}

struct RejectedCopy {
  std::string name;
  Copy copy;
  std::string says;
};

class RejectionOf : public testing::TestWithParam<RejectedCopy> {};

Copy with(Copy changed, const std::function<void(Copy&)>& change) {
  change(changed);
  return changed;
}

TEST_P(RejectionOf, SaysWhyACopyIsNoCandidate) {
  std::vector<Claim> more = claims;
  more.push_back(claim_of(3, std::nullopt, /*is_open=*/true));
  EXPECT_EQ(rejection_of(GetParam().copy, more, resumer), GetParam().says) << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    OfACopy, RejectionOf,
    testing::Values(RejectedCopy{"good", copy(130, 2), ""},
                    RejectedCopy{"of the run before, up to the step that is not superseded", copy(100, 1), ""},
                    RejectedCopy{"of the run before, beyond", copy(101, 1), "a later run resumed from step 100"},
                    RejectedCopy{"of another life", with(copy(130, 2), [](Copy& c) { c.identity.job_uid = "uid-b"; }),
                                 "another job wrote it"},
                    RejectedCopy{"of another model",
                                 with(copy(130, 2), [](Copy& c) { c.identity.fingerprint = "other"; }),
                                 "it was saved with another model or other data"},
                    RejectedCopy{"of another place's claim", with(copy(130, 2), [](Copy& c) { c.nonce = "m2-130"; }),
                                 "its run never wrote to checkpoint.uri"},
                    RejectedCopy{"of a claim whose nonce begins alike",
                                 with(copy(130, 2), [](Copy& c) { c.nonce = "n21-130"; }),
                                 "its run never wrote to checkpoint.uri"},
                    RejectedCopy{"of no claim", copy(130, 9), "its run never wrote to checkpoint.uri"}));

TEST(RejectionOf, SaysThatALaterRunBeganAfresh) {
  const std::vector<Claim> afresh{claim_of(1, std::nullopt), claim_of(2, std::nullopt)};
  EXPECT_EQ(rejection_of(copy(10, 1), afresh, resumer), "a later run began afresh");
}

}  // namespace
}  // namespace trainyard::checkpoint

#include "checkpoint/run/superseded.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

namespace trainyard::checkpoint {
namespace {

using Ids = std::vector<CheckpointId>;

Claim claim(std::int64_t generation, std::optional<CheckpointId> resumed_from, std::string uid = "uid") {
  Claim made;
  made.generation = generation;
  made.identity.job_uid = std::move(uid);
  made.resumed_from = resumed_from;
  return made;
}

Claim open_claim(std::int64_t generation) {
  Claim made = claim(generation, {});
  made.is_open = true;
  return made;
}

Claim of_job(std::string name, Claim made) {
  made.identity.job = std::move(name);
  return made;
}

// Claims are of the time 0.
constexpr Time long_after{std::chrono::hours{1'000}};

Keep keep_last(std::int64_t count) {
  return {.last = count, .every_steps = {}, .every_epochs = {}, .best = {}};
}

TEST(LastCurrentStep, IsTheLowestFromWhichALaterGenerationResumed) {
  constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
  struct Row {
    std::string_view name;
    std::int64_t generation;
    std::vector<Claim> claims;
    std::int64_t expected;
  };
  const std::vector<Claim> chain = {claim(1, {}), claim(2, CheckpointId{20, 1}), claim(3, CheckpointId{30, 2})};
  const Row rows[] = {
      {"no claims: nothing is superseded", 1, {}, all},
      {"its own claim takes nothing", 1, {claim(1, {})}, all},
      {"the newest of several", 3, chain, all},
      {"the one before", 2, chain, 30},
      {"the first, from which two resumed", 1, chain, 20},
      {"a later one went back further", 1, {claim(2, CheckpointId{20, 1}), claim(3, CheckpointId{10, 1})}, 10},
      {"one that began afresh takes all, step 0 too", 1, {claim(1, {}), claim(2, {})}, -1},
      {"an open claim takes nothing", 1, {claim(1, {}), open_claim(2)}, all},
      {"in any order", 1, {claim(3, CheckpointId{30, 2}), claim(2, CheckpointId{20, 1}), claim(1, {})}, 20},
  };
  for (const Row& row : rows) EXPECT_EQ(last_current_step(row.generation, row.claims), row.expected) << row.name;
}

TEST(WithoutSuperseded, TakesAGenerationOnlyUpToWhereLaterOnesResumed) {
  struct Row {
    std::string_view name;
    Ids complete;
    std::vector<Claim> claims;
    Ids expected;
  };
  const Row rows[] = {
      {"nothing is there", {}, {}, {}},
      {"one generation: all, newest first", {{10, 1}, {20, 1}}, {claim(1, {})}, {{20, 1}, {10, 1}}},
      {"steps are compared as numbers", {{9, 1}, {10, 1}, {100, 1}}, {claim(1, {})}, {{100, 1}, {10, 1}, {9, 1}}},
      {"what a fenced writer finished late is superseded",
       {{10, 1}, {20, 1}, {30, 1}},
       {claim(1, {}), claim(2, CheckpointId{20, 1})},
       {{20, 1}, {10, 1}}},
      {"the newer run's checkpoint comes first, also at an equal step",
       {{10, 1}, {20, 1}, {20, 2}},
       {claim(1, {}), claim(2, CheckpointId{10, 1})},
       {{20, 2}, {10, 1}}},
      {"a run that began afresh fences all before it", {{10, 1}, {5, 2}}, {claim(1, {}), claim(2, {})}, {{5, 2}}},
      {"an open claim supersedes nothing", {{10, 1}, {20, 1}}, {claim(1, {}), open_claim(2)}, {{20, 1}, {10, 1}}},
      {"a fence holds for good",
       {{10, 1}, {30, 1}, {15, 2}, {20, 3}},
       {claim(1, {}), claim(2, CheckpointId{10, 1}), claim(3, CheckpointId{15, 2})},
       {{20, 3}, {15, 2}, {10, 1}}},
      {"a generation that saved nothing fences too",
       {{10, 1}, {20, 1}},
       {claim(1, {}), claim(2, CheckpointId{10, 1}), claim(3, CheckpointId{10, 1})},
       {{10, 1}}},
      {"a checkpoint whose own claim is unreadable is judged by the later ones",
       {{10, 1}, {20, 1}},
       {claim(2, CheckpointId{10, 1})},
       {{10, 1}}},
  };
  for (const Row& row : rows) EXPECT_EQ(without_superseded(row.complete, row.claims), row.expected) << row.name;
}

TEST(Expired, KeepsTheNewestCurrentOnesAndTouchesOnlyItsOwnRuns) {
  struct Row {
    std::string_view name;
    Ids present;
    Ids complete;
    std::vector<Claim> claims;  // The last is the newest, which asks.
    CheckpointId saved;
    Ids expected;
  };
  const Claim first = claim(1, {});
  const Claim resumed = claim(2, CheckpointId{20, 1});
  const Row rows[] = {
      {"few enough", {{10, 1}, {20, 1}}, {{10, 1}, {20, 1}}, {first}, {20, 1}, {}},
      {"the oldest goes", {{10, 1}, {20, 1}, {30, 1}}, {{10, 1}, {20, 1}, {30, 1}}, {first}, {30, 1}, {{10, 1}}},
      {"only complete ones fill the places",
       {{10, 1}, {20, 1}, {25, 1}, {30, 1}},
       {{10, 1}, {20, 1}, {30, 1}},
       {first},
       {30, 1},
       {{10, 1}, {25, 1}}},
      {"what a fenced writer left goes",
       {{10, 1}, {20, 1}, {40, 1}, {30, 2}},
       {{10, 1}, {20, 1}, {40, 1}, {30, 2}},
       {first, resumed},
       {30, 2},
       {{10, 1}, {40, 1}}},
      {"another job's stays",
       {{10, 1}, {5, 2}, {6, 2}, {7, 2}},
       {{10, 1}, {5, 2}, {6, 2}, {7, 2}},
       {claim(1, {}, "other"), claim(2, {})},
       {7, 2},
       {{5, 2}}},
      {"so does another job's from which this one resumed",
       {{10, 1}, {20, 1}, {30, 2}},
       {{10, 1}, {20, 1}, {30, 2}},
       {claim(1, {}, "other"), claim(2, CheckpointId{20, 1})},
       {30, 2},
       {}},
      {"and that of an earlier life of this job",
       {{10, 1}, {20, 1}, {30, 2}},
       {{10, 1}, {20, 1}, {30, 2}},
       {of_job("team/a", claim(1, {}, "uid-before")), of_job("team/a", claim(2, CheckpointId{20, 1}))},
       {30, 2},
       {}},
      {"an earlier attempt's goes",
       {{10, 1}, {20, 1}, {30, 2}},
       {{10, 1}, {20, 1}, {30, 2}},
       {claim(1, {}), claim(2, CheckpointId{20, 1})},
       {30, 2},
       {{10, 1}}},
      {"runs by hand of one model and data that resumed from each other are one job",
       {{10, 1}, {20, 2}, {30, 3}},
       {{10, 1}, {20, 2}, {30, 3}},
       {claim(1, {}, ""), claim(2, CheckpointId{10, 1}, ""), claim(3, CheckpointId{20, 2}, "")},
       {30, 3},
       {{10, 1}}},
      {"runs by hand of different names are not",
       {{10, 1}, {20, 2}, {30, 3}},
       {{10, 1}, {20, 2}, {30, 3}},
       {of_job("other", claim(1, {}, "")), claim(2, CheckpointId{10, 1}, ""), claim(3, CheckpointId{20, 2}, "")},
       {30, 3},
       {}},
      {"what the run may be writing stays",
       {{10, 1}, {20, 1}, {30, 1}, {40, 1}},
       {{10, 1}, {20, 1}, {30, 1}},
       {first},
       {30, 1},
       {{10, 1}}},
      {"runs by hand that did not resume from each other are not one job",
       {{10, 1}, {5, 2}},
       {{10, 1}, {5, 2}},
       {claim(1, {}, ""), claim(2, {}, "")},
       {5, 2},
       {}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(expired(row.present, row.complete, row.claims, row.claims.back(), row.saved, long_after, keep_last(2)),
              row.expected)
        << row.name;
  }
}

TEST(Expired, KeepsMilestonesAndTheBest) {
  // Steps 10 to 60 of one generation; accuracy rises to step 40 and falls again; 20 and 40 end epochs 1 and 2.
  const Ids all = {{10, 1}, {20, 1}, {30, 1}, {40, 1}, {50, 1}, {60, 1}};
  const std::map<CheckpointId, Facts> facts = {
      {{10, 1}, {.ended_epoch = {}, .metrics = {}}},
      {{20, 1}, {.ended_epoch = 1, .metrics = {{"accuracy", 0.5}}}},
      {{30, 1}, {.ended_epoch = {}, .metrics = {{"accuracy", 0.5}}}},
      {{40, 1}, {.ended_epoch = 2, .metrics = {{"accuracy", 0.75}}}},
      {{50, 1}, {.ended_epoch = {}, .metrics = {{"accuracy", 0.25}}}},
      {{60, 1}, {.ended_epoch = {}, .metrics = {{"accuracy", 0.25}}}},
  };
  struct Row {
    std::string_view name;
    Keep keep;
    std::map<CheckpointId, Facts> facts;
    Ids expected;
  };
  const auto best = [](std::string metric, bool is_highest, std::int64_t count) {
    Keep keep = keep_last(2);
    keep.best = KeepBest{.metric = std::move(metric), .is_highest = is_highest, .count = count};
    return keep;
  };
  const Row rows[] = {
      {"never fewer than two", keep_last(0), {}, {{10, 1}, {20, 1}, {30, 1}, {40, 1}}},
      {"each third step",
       {.last = 2, .every_steps = 30, .every_epochs = {}, .best = {}},
       {},
       {{10, 1}, {20, 1}, {40, 1}}},
      {"each second epoch",
       {.last = 2, .every_steps = {}, .every_epochs = 2, .best = {}},
       facts,
       {{10, 1}, {20, 1}, {30, 1}}},
      {"the highest", best("accuracy", true, 1), facts, {{10, 1}, {20, 1}, {30, 1}}},
      {"the two highest, of equal ones the one that was validated",
       best("accuracy", true, 2),
       facts,
       {{10, 1}, {30, 1}}},
      {"the lowest", best("accuracy", false, 3), facts, {{10, 1}, {30, 1}, {40, 1}}},
      {"a metric that nobody logs", best("loss", true, 2), facts, {{10, 1}, {20, 1}, {30, 1}, {40, 1}}},
      {"what is not known stays", best("accuracy", true, 1), {{{20, 1}, {}}}, {{20, 1}}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(expired(all, all, std::vector{claim(1, {})}, claim(1, {}), {60, 1}, long_after, row.keep, row.facts),
              row.expected)
        << row.name;
  }
}

TEST(Expired, LeavesWhatWasSupersededOnlyJustNow) {
  const Ids all = {{10, 1}, {20, 1}, {60, 1}, {30, 2}, {50, 2}, {70, 3}, {80, 3}};
  const Time first_cut{std::chrono::hours{10}};
  const Time second_cut{std::chrono::hours{11}};
  Claim second = claim(2, CheckpointId{20, 1});
  second.time = first_cut;
  Claim third = claim(3, CheckpointId{30, 2});
  third.time = second_cut;
  Claim open = open_claim(4);
  open.time = Time{std::chrono::hours{100}};
  struct Row {
    std::string_view name;
    Time now;
    Ids expected;
  };
  const Row rows[] = {
      {"within the time of both", second_cut - std::chrono::minutes{1}, {{10, 1}, {20, 1}, {30, 2}}},
      {"past that of the first, which also the second one superseded",
       first_cut + superseded_grace,
       {{10, 1}, {20, 1}, {30, 2}}},
      {"just within that of the second",
       second_cut + superseded_grace - std::chrono::milliseconds{1},
       {{10, 1}, {20, 1}, {30, 2}}},
      {"past both", second_cut + superseded_grace, {{10, 1}, {20, 1}, {60, 1}, {30, 2}, {50, 2}}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(expired(all, all, std::vector{claim(1, {}), second, third, open}, third, {80, 3}, row.now, keep_last(2)),
              row.expected)
        << row.name;
  }
}

TEST(Expired, LetsNoOtherJobsBestTakeThePlaceOfItsOwn) {
  const Ids all = {{20, 1}, {30, 2}, {40, 2}, {50, 2}, {60, 2}};
  std::map<CheckpointId, Facts> facts;
  for (const CheckpointId& id : all)
    facts[id] = {.ended_epoch = {}, .metrics = {{"accuracy", 1.0 / static_cast<double>(id.step)}}};
  Keep keep = keep_last(2);
  keep.best = KeepBest{.metric = "accuracy"};
  const std::vector<Claim> claims = {claim(1, {}, "other"), claim(2, CheckpointId{20, 1})};
  EXPECT_EQ(expired(all, all, claims, claims.back(), {60, 2}, long_after, keep, facts), (Ids{{40, 2}}));
}

TEST(FactsOf, ReadsWhatTrainingWritesAndForgivesTheRest) {
  const auto facts = [](const char* text) { return facts_of(nlohmann::json::parse(text)); };
  EXPECT_EQ(facts(R"({"epoch": 3, "samples": 0, "metrics": {"a": 0.5, "b": "x"}})"),
            (Facts{.ended_epoch = 3, .metrics = {{"a", 0.5}}}));
  EXPECT_EQ(facts(R"({"epoch": 3, "samples": 64})"), Facts{});
  EXPECT_EQ(facts(R"({"epoch": 0, "samples": 0})"), Facts{}) << "nothing was trained";
  for (const char* text : {"null", "[]", "{}", R"({"epoch": "x", "samples": 0, "metrics": 7})"})
    EXPECT_EQ(facts(text), Facts{});
}

}  // namespace
}  // namespace trainyard::checkpoint

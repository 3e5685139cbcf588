// How a start reacts to a storage that refuses it, and how often it asks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/fakes/thread_group.hpp"
#include "tests/worker/checkpoint/a_checkpointer.hpp"

namespace trainyard::checkpoint {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

using Calls = std::map<std::string, int, std::less<>>;

/// Ranks that start over one store in memory, which answers each as `fault` says.
class AStart : public ACheckpointer {
 protected:
  using Fault = std::function<std::optional<Error>(std::int64_t rank, std::string_view call, std::string_view key)>;

  /// The outcome of opening and restoring, by rank. Waiting takes no time.
  std::vector<Result<void>> start(std::int64_t world_size, const Fault& fault) {
    std::vector<Result<void>> outcomes(static_cast<std::size_t>(world_size));
    fakes::ThreadGroup group{world_size};
    group.run([&](Communicator& communicator) {
      const std::int64_t rank = communicator.rank();
      auto store = std::make_unique<fakes::FaultyStore>(
          std::make_unique<fakes::MemoryStore>(objects),
          [&fault, rank, this](std::string_view call, std::string_view key, storage::Pieces) {
            {
              const std::scoped_lock lock{mutex};
              ++calls[rank][call == "list" || call == "get" ? fmt::format("{} {}", call, key) : std::string{call}];
            }
            return fault ? fault(rank, call, key) : std::nullopt;
          });
      const StartOptions options{
          .node = node_of(rank),
          .patience = {.duration = default_start_patience, .wait = [this](auto pause, const Error&) {
                         clock.advance(pause);
                         return true;
                       }}};
      auto opened = open_checkpointer(std::move(store), spec(), identity, communicator, clock, options);
      Result<void>& outcome = outcomes[static_cast<std::size_t>(rank)];
      outcome = opened.map([](const auto&) {});
      if (!opened) return;
      State state;
      state.entries.push_back({"weight", Placement::replicated, at::ones({3})});
      outcome = (*opened)->restore(state).map([](const auto&) {});
    });
    return outcomes;
  }
  [[nodiscard]] static std::string node_of(std::int64_t rank) { return fmt::format("node-{}", rank / 2); }

  fakes::MemoryObjects objects;
  std::mutex mutex;  // guards calls
  std::map<std::int64_t, Calls> calls;
};

TEST_F(AStart, BearsWithAStorageThatLetsItInOnlyAfterAMinute) {
  struct Row {
    std::string_view call;
    ErrorKind kind;
  };
  const Row rows[] = {{"probe", ErrorKind::forbidden}, {"probe", ErrorKind::unauthorized},
                      {"probe", ErrorKind::not_found}, {"probe", ErrorKind::timeout},
                      {"list", ErrorKind::forbidden},  {"put", ErrorKind::forbidden},
                      {"list", ErrorKind::unavailable}};
  for (const Row& row : rows) {
    objects.objects.clear();
    const Instant end = clock.instant() + 1min;
    const auto outcomes = start(2, [&](std::int64_t, std::string_view call, std::string_view) {
      return call == row.call && clock.instant() < end ? std::optional{Error{row.kind, "not yet", std::nullopt}}
                                                       : std::nullopt;
    });
    for (const auto& outcome : outcomes)
      EXPECT_TRUE(outcome) << row.call << ", " << to_string(row.kind) << ": " << outcome.error().message;
  }
}

TEST_F(AStart, IsRefusedForGoodOnlyWhereAllRanksAre) {
  struct Row {
    std::string_view name;
    std::vector<bool> is_refused;  // By rank.
    ErrorKind kind;
  };
  const Row rows[] = {
      {"all", {true, true, true}, ErrorKind::forbidden},
      {"rank 0, which asks for all", {true, false, false}, ErrorKind::unavailable},
      {"one alone in its group", {true}, ErrorKind::forbidden},
  };
  for (const Row& row : rows) {
    const auto outcomes =
        start(static_cast<std::int64_t>(row.is_refused.size()),
              [&](std::int64_t rank, std::string_view call, std::string_view) -> std::optional<Error> {
                if (call != "probe" || !row.is_refused[static_cast<std::size_t>(rank)]) return std::nullopt;
                return Error{ErrorKind::forbidden, "AccessDenied", std::nullopt};
              });
    for (const auto& outcome : outcomes) {
      ASSERT_FALSE(outcome) << row.name;
      EXPECT_EQ(outcome.error().kind, row.kind) << row.name;
      EXPECT_THAT(outcome.error().message, HasSubstr("rank 0: AccessDenied"));
    }
  }
}

TEST_F(AStart, IsNotRefusedForGoodBecauseOfANodeThatCannotReadTheClaim) {
  const auto outcomes =
      start(4, [](std::int64_t rank, std::string_view call, std::string_view) -> std::optional<Error> {
        if (rank != 2 || call != "get") return std::nullopt;
        return Error{ErrorKind::unauthorized, "no credentials", std::nullopt};
      });
  for (const auto& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(outcome.error().message, HasSubstr("rank 2: no credentials (1 of 4 ranks were denied access"));
  }
}

TEST_F(AStart, AsksOnceForTheGroupAndOnceANodeForTheClaim) {
  const auto outcomes = start(6, {});
  for (const auto& outcome : outcomes) ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(calls[0]["probe"], 1);
  EXPECT_EQ(calls[0]["list step-"], 2) << "before and after it claims";
  const Calls one_claim{{"get generations/1.json", 1}};
  EXPECT_EQ(calls[2], one_claim) << "the first rank of its node";
  EXPECT_EQ(calls[4], one_claim);
  for (const std::int64_t rank : {1, 3, 5}) EXPECT_EQ(calls[rank], Calls{}) << "rank " << rank;
}

TEST_F(AStart, SaysThatTheRanksHaveLostEachOtherAndNotThatTheStorageFails) {
  fakes::ThreadGroup group{2};
  group.run([&](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    const auto opened = open_checkpointer(std::make_unique<fakes::MemoryStore>(objects), spec(), identity, communicator,
                                          clock, {.node = "n"});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().kind, ErrorKind::cancelled) << opened.error().message;
  });
}

}  // namespace
}  // namespace trainyard::checkpoint

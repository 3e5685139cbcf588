#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/superseded.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/turns.hpp"

namespace trainyard::checkpoint {

/// Two attempts of one job under one prefix: the older one, which everybody believes dead, and the newer one. Each call
/// to the storage is a step of its writer, and `bursts` (see Turns) gives the order of the steps.
class TwoWriters {
 public:
  using OpenStore = std::function<std::unique_ptr<storage::Store>()>;

  explicit TwoWriters(OpenStore open) : open_{std::move(open)} {}

  std::function<void()> on_change;  ///< Called when the turn passes.

  /// The older one saves at steps 10 to 50, or until it is fenced; the newer one twice.
  void run(const std::vector<int>& bursts) {
    fakes::Turns turns{bursts, on_change};
    std::jthread older{[&] {
      run_older(turns);
      turns.leave(0);
    }};
    run_newer(turns);
    turns.leave(1);
  }

  /// Checks what must hold when both have ended, and what a third attempt finds.
  void expect_all_is_well() {
    ASSERT_TRUE(newer_said) << "the newer one failed: " << newer_error;
    EXPECT_TRUE(older_error.kind == ErrorKind::conflict || is_older_done) << older_error.message;
    EXPECT_LE(older_said, newer_base) << "what was reported as saved is resumed from";
    const auto store = open_();
    const auto inventory = take_inventory(*store);
    ASSERT_TRUE(inventory);
    EXPECT_GE(without_superseded(inventory->complete, inventory->claims).size(), 2U);
    EXPECT_EQ(restored_step(open_), *newer_said);
  }

  /// Checks that a third attempt would lose nothing that has been reported so far.
  void expect_nothing_reported_is_lost(const OpenStore& open_copy) {
    EXPECT_GE(restored_step(open_copy), std::max(older_said, newer_said.value_or(0)));
  }

  std::int64_t older_said = 0;  ///< The last step that the older one reported as saved.
  Error older_error;
  bool is_older_done = false;  ///< It came to its end.
  std::int64_t newer_base = 0;
  std::optional<std::int64_t> newer_said;
  std::string newer_error;

 private:
  std::unique_ptr<TestRun> open_run(fakes::Turns& turns, std::size_t who) {
    auto run = std::make_unique<TestRun>(std::make_unique<fakes::FaultyStore>(
        open_(), [&turns, who](std::string_view, std::string_view, storage::Pieces) -> std::optional<Error> {
          turns.step(who);
          return std::nullopt;
        }));
    run->large_rows = 1;
    run->as_attempt(static_cast<std::int64_t>(who) + 1);
    return run;
  }

  void run_older(fakes::Turns& turns) {
    const auto run = open_run(turns, 0);
    if (const auto restored = run->restore(); !restored) {
      older_error = restored.error();
      return;
    }
    for (std::int64_t step = 10; step <= 50; step += 10) {
      if (const auto saved = run->save(step); !saved) {
        older_error = saved.error();
        return;
      }
      older_said = step;
    }
    is_older_done = true;
  }

  void run_newer(fakes::Turns& turns) {
    const auto run = open_run(turns, 1);
    const auto restored = run->restore();
    if (!restored) {
      newer_error = restored.error().message;
      return;
    }
    newer_base = *restored ? (*restored)->step : 0;
    for (const std::int64_t step : {newer_base + 5, newer_base + 15}) {
      if (const auto saved = run->save(step); !saved) {
        newer_error = saved.error().message;
        newer_said.reset();
        return;
      }
      newer_said = step;
    }
  }

  // 0: nothing; -1: it failed, or gave other bytes.
  static std::int64_t restored_step(const OpenStore& open) {
    TestRun third{open()};
    third.large_rows = 1;
    const auto restored = third.as_attempt(3).restore();
    EXPECT_TRUE(restored) << restored.error().message;
    if (!restored) return -1;
    const std::int64_t step = *restored ? (*restored)->step : 0;
    return step == 0 || third.holds_state_after(step) ? step : -1;
  }

  OpenStore open_;
};

}  // namespace trainyard::checkpoint

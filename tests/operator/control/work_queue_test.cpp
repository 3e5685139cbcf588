#include "operator/control/work_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>
#include <vector>

namespace trainyard::control {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

const ObjectKey first_key{"ns", "a"};
const ObjectKey second_key{"ns", "b"};

TEST(WorkQueue, WakesAWorkerForAKey) {
  WorkQueue queue;
  std::stop_source stop;
  auto taken = std::async(std::launch::async, [&] { return queue.take(stop.get_token()); });
  queue.add(first_key);
  EXPECT_EQ(taken.get(), first_key);
}

TEST(WorkQueue, WakesAWorkerThatWaitsForALaterKey) {
  WorkQueue queue;
  std::stop_source stop;
  queue.add_after(first_key, hours{1});
  auto taken = std::async(std::launch::async, [&] { return queue.take(stop.get_token()); });
  queue.add(second_key);
  EXPECT_EQ(taken.get(), second_key);
}

TEST(WorkQueue, GivesAKeyAgainAfterItsDelay) {
  WorkQueue queue;
  std::stop_source stop;
  queue.add(first_key);
  ASSERT_EQ(queue.take(stop.get_token()), first_key);
  queue.succeed_and_requeue(first_key, milliseconds{1});
  EXPECT_EQ(queue.take(stop.get_token()), first_key);
}

TEST(WorkQueue, WaitsLongerAfterEachFailureAndAsLongAsTheReconcileAsked) {
  WorkQueue queue{
      {.keys_max = 10, .backoff = {.initial = milliseconds{1}, .max = hours{1}, .factor = 2.0, .jitter_share = 0.0}}};
  std::stop_source stop;
  const auto fail_once = [&](std::optional<milliseconds> retry_after) {
    EXPECT_EQ(queue.take(stop.get_token()), first_key);
    return queue.fail(first_key, retry_after);
  };
  queue.add(first_key);
  EXPECT_EQ(fail_once({}), milliseconds{1});
  EXPECT_EQ(fail_once({}), milliseconds{2});
  EXPECT_EQ(fail_once(milliseconds{30}), milliseconds{30});
  EXPECT_EQ(fail_once(milliseconds{1}), milliseconds{8});
  queue.forget_failures(first_key);
  EXPECT_EQ(fail_once({}), milliseconds{1});
  ASSERT_EQ(queue.take(stop.get_token()), first_key);
  queue.succeed(first_key);
  queue.add(first_key);
  EXPECT_EQ(fail_once({}), milliseconds{1});
}

TEST(WorkQueue, LetsEveryWorkerGoWhenAskedToStop) {
  WorkQueue queue;
  queue.add_after(first_key, hours{1});
  std::vector<std::jthread> workers;
  for (int worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&](const std::stop_token& stop) { EXPECT_EQ(queue.take(stop), std::nullopt); });
  }
}

TEST(WorkQueue, NeverGivesOneKeyToTwoWorkersAndLosesNone) {
  constexpr int keys = 20;
  constexpr int adds = 2000;
  WorkQueue queue;
  std::vector<std::atomic<int>> holders(keys);
  std::atomic<int> overlaps = 0;
  std::vector<std::atomic<int>> seen_version(keys);
  std::vector<std::atomic<int>> version(keys);
  {
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < 4; ++worker) {
      workers.emplace_back([&](const std::stop_token& stop) {
        while (const auto key = queue.take(stop)) {
          const auto index = static_cast<std::size_t>(std::stoi(key->name));
          if (++holders[index] != 1) ++overlaps;
          seen_version[index] = version[index].load();
          --holders[index];
          queue.succeed(*key);
        }
      });
    }
    for (int add = 0; add < adds; ++add) {
      const auto index = static_cast<std::size_t>(add % keys);
      ++version[index];
      queue.add({"ns", std::to_string(index)});
    }
    // Every add is followed by a look at what it announced: wait for that, however slow the machine.
    const auto deadline = std::chrono::steady_clock::now() + seconds{60};
    const auto is_settled = [&] {
      for (std::size_t index = 0; index < keys; ++index) {
        if (seen_version[index] != version[index]) return false;
      }
      return true;
    };
    while (!is_settled() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(is_settled());
  }
  EXPECT_EQ(overlaps, 0);
}

}  // namespace
}  // namespace trainyard::control

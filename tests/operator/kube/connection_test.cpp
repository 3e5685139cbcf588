#include "operator/kube/connection.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace trainyard::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::steady_clock;

ClientConfig nowhere() {
  ClientConfig config;
  config.host = "127.0.0.1";
  return config;
}

TEST(ConnectionPool, SaysThatAllConnectionsAreInUse) {
  const ClientConfig config = nowhere();
  ConnectionPool pool{config, 1};
  const auto held = pool.acquire(minutes{1});
  ASSERT_TRUE(held);
  const auto refused = pool.acquire(milliseconds{1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::timeout);
  EXPECT_EQ(refused.error().message, "all 1 connections to the API server were in use for 1 ms");
}

TEST(ConnectionPool, LendsAsManyConnectionsAsItMayHave) {
  const ClientConfig config = nowhere();
  ConnectionPool pool{config, 2};
  for (int round = 0; round < 3; ++round) {
    const auto first = pool.acquire(minutes{1});
    const auto second = pool.acquire(minutes{1});
    ASSERT_TRUE(first && second) << round;
    EXPECT_FALSE(pool.acquire(milliseconds{0})) << round;
  }
}

TEST(ConnectionPool, LendsTheWarmestConnectionFirst) {
  const ClientConfig config = nowhere();
  ConnectionPool pool{config, 2};
  const Connection* last = nullptr;
  {
    const auto first = pool.acquire(minutes{1});
    const auto second = pool.acquire(minutes{1});
    last = first->operator->();
  }
  EXPECT_EQ(pool.acquire(minutes{1})->operator->(), last);
}

TEST(ConnectionPool, WakesWhoeverWaitsForAConnection) {
  const ClientConfig config = nowhere();
  ConnectionPool pool{config, 1};
  const auto start = steady_clock::now();
  // Often enough that the other thread waits at least once when the connection comes back.
  for (int round = 0; round < 50; ++round) {
    auto held = std::make_unique<Result<ConnectionPool::Handle>>(pool.acquire(minutes{2}));
    ASSERT_TRUE(*held);
    std::atomic<bool> is_asking = false;
    auto waiter = std::async(std::launch::async, [&] {
      is_asking = true;
      is_asking.notify_one();
      return pool.acquire(minutes{2}).has_value();
    });
    is_asking.wait(false);
    for (int turn = 0; turn < 20; ++turn) std::this_thread::yield();
    held.reset();
    ASSERT_TRUE(waiter.get());
  }
  EXPECT_LT(steady_clock::now() - start, minutes{1}) << "a waiter slept for its whole deadline";
}

}  // namespace
}  // namespace trainyard::kube

#include "worker/dist/rendezvous.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using rank::GroupEnvironment;
using namespace std::chrono_literals;

/// A store that outlives the groups that meet there, as the one of torchrun's agent does.
class StandingStore {
 public:
  StandingStore() {
    c10d::TCPStoreOptions options;
    options.isServer = true;
    options.waitWorkers = false;
    options.port = 0;
    server_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }

  /// The environment of a group of two ranks below torchrun.
  [[nodiscard]] GroupEnvironment agent_environment() const {
    GroupEnvironment environment = launcher_environment();
    environment.has_launcher = false;
    environment.uses_agent_store = true;
    return environment;
  }

  /// The environment of a group of two ranks below the worker's launcher.
  [[nodiscard]] GroupEnvironment launcher_environment() const {
    GroupEnvironment environment;
    environment.world_size = 2;
    environment.master_port = environment.store_port = server_->getPort();
    environment.job_uid = "u";
    environment.has_launcher = true;
    return environment;
  }

 private:
  c10::intrusive_ptr<c10d::TCPStore> server_;
};

c10::intrusive_ptr<c10d::Store> opened(const GroupEnvironment& environment) {
  FakeRankLink link;
  auto store = open_rendezvous_store(environment, 1, 1min, link);
  EXPECT_TRUE(store) << store.error().message;
  return store ? *store : nullptr;
}

/// Returns once the store has the key: a set alone has no answer, and a look by another connection may come before it.
void set_for_all(c10d::Store& store, const std::string& key) {
  store.set(key, std::vector<std::uint8_t>{'1'});
  EXPECT_EQ(store.get(key), std::vector<std::uint8_t>{'1'});
}

TEST(OpenRendezvousStore, HidesFromAnAttemptWhatTheOneBeforeLeft) {
  const StandingStore standing;
  GroupEnvironment environment = standing.launcher_environment();
  const auto before = opened(environment);
  environment.attempt = 2;
  const auto after = opened(environment);
  ASSERT_TRUE(before && after);
  set_for_all(*before, "address");
  EXPECT_FALSE(after->check({"address"}));
}

TEST(OpenRendezvousStore, HidesFromAJobWhatAnotherJobOfThatAttemptHasLeft) {
  const StandingStore standing;
  GroupEnvironment environment = standing.launcher_environment();
  const auto before = opened(environment);
  environment.job_uid = "v";
  const auto after = opened(environment);
  ASSERT_TRUE(before && after);
  set_for_all(*before, "address");
  EXPECT_FALSE(after->check({"address"}));
}

TEST(OpenRendezvousStore, BringsTheRanksOfAgentsTogetherWhoseCountsOfRestartsDiffer) {
  const StandingStore standing;
  GroupEnvironment environment = standing.agent_environment();
  const auto one = opened(environment);
  environment.attempt = 2;
  const auto other = opened(environment);
  ASSERT_TRUE(one && other);
  set_for_all(*one, "address");
  EXPECT_TRUE(other->check({"address"}));
}

TEST(OpenRendezvousStore, ConnectsToThePortOfWhoeverHostsTheStore) {
  const StandingStore standing;
  GroupEnvironment of_launcher = standing.launcher_environment();
  of_launcher.master_port = 1;
  EXPECT_TRUE(opened(of_launcher));
  GroupEnvironment of_agent = standing.agent_environment();
  of_agent.store_port = 1;
  EXPECT_TRUE(opened(of_agent));
}

constexpr const char* unknown_name = "no-such-host.invalid";

/// A group of two ranks that a shell has started: rank 0 hosts the store.
GroupEnvironment by_hand(std::uint16_t port, std::string master) {
  GroupEnvironment environment;
  environment.world_size = 2;
  environment.master_port = port;
  environment.master_address = std::move(master);
  return environment;
}

TEST(OpenRendezvousStore, SaysWhichPortAnotherProgramHasTakenAndWhatToDo) {
  FakeRankLink link;
  const StandingStore taken;
  const std::uint16_t port = taken.agent_environment().master_port;
  const auto store = open_rendezvous_store(by_hand(port, "127.0.0.1"), 0, 1min, link);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::already_exists);
  EXPECT_EQ(
      store.error().message,
      "port " + std::to_string(port) +
          ", where the rendezvous store (MASTER_PORT) was to listen, is in use by another program on this machine: "
          "end that program (ss -ltnp lists it), or give the group another port");
}

TEST(OpenRendezvousStore, TriesANameThatDoesNotResolveAgainAndAgain) {
  FakeRankLink link;
  Result<c10::intrusive_ptr<c10d::Store>> store;
  {
    const std::jthread rank{[&] { store = open_rendezvous_store(by_hand(29500, unknown_name), 1, 1h, link); }};
    link.wait_for_looks(3);
    link.request_stop();
  }
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(
      store.error().message.find("asked to stop while waiting for rank 0's store at no-such-host.invalid:29500 ("), 0U)
      << store.error().message;
}

TEST(OpenRendezvousStore, SaysAtItsDeadlineThatTheNameDoesNotResolve) {
  FakeRankLink link;
  const auto store = open_rendezvous_store(by_hand(29500, unknown_name), 1, 0ms, link);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::timeout);
  EXPECT_EQ(store.error().message.find("gave up waiting for rank 0's store at no-such-host.invalid:29500 ("), 0U);
  EXPECT_NE(store.error().message.find("): the name no-such-host.invalid does not resolve ("), std::string::npos)
      << store.error().message;
}

}  // namespace
}  // namespace trainyard::dist

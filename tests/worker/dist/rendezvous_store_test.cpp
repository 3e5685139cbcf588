#include "worker/dist/rendezvous_store.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "tests/worker/fakes/fake_rank_link.hpp"
#include "worker/dist/roll_call.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using launcher::GroupEnvironment;
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

c10::intrusive_ptr<c10d::Store> opened(const GroupEnvironment& environment, std::int64_t rank) {
  FakeRankLink link;
  auto store = open_store(environment, rank, 1min, link);
  EXPECT_TRUE(store) << store.error().message;
  return store ? *store : nullptr;
}

TEST(OpenStore, ShowsAGroupItsOwnKeysAndNoOther) {
  using Change = std::function<void(GroupEnvironment&)>;
  struct Row {
    std::string sentence;
    GroupEnvironment before;
    Change change;
    bool is_found = false;
  };
  const StandingStore standing;
  const auto by_agent = standing.agent_environment();
  const auto by_launcher = standing.launcher_environment();
  const auto restarted = [](GroupEnvironment& environment) { environment.restart_count = 1; };
  const auto next_attempt = [](GroupEnvironment& environment) { environment.attempt = 2; };
  const auto other_job = [](GroupEnvironment& environment) { environment.job_uid = "v"; };
  const auto other_rank = [](GroupEnvironment& environment) { environment.node_rank = 1; };
  const std::vector<Row> rows{
      {"the ranks of one group below torchrun meet", by_agent, other_rank, true},
      {"what torchrun restarts finds nothing of the group before", by_agent, restarted, false},
      {"the ranks of one attempt meet", by_launcher, other_rank, true},
      {"the next attempt finds nothing of the one before", by_launcher, next_attempt, false},
      {"another job finds nothing of this one", by_launcher, other_job, false},
  };
  for (std::size_t number = 0; number < rows.size(); ++number) {
    const Row& row = rows[number];
    const std::string key =
        "address-" + std::to_string(number);  // Each row has its own, since the store remembers all.
    GroupEnvironment after = row.before;
    row.change(after);
    const auto first = opened(row.before, 0);
    const auto second = opened(after, 1);
    ASSERT_TRUE(first && second) << row.sentence;
    first->set(key, std::vector<std::uint8_t>{'1'});
    EXPECT_EQ(second->check({key}), row.is_found) << row.sentence;
  }
}

TEST(OpenStore, LetsNoRankOfTheGroupBeforeAnswerTheRollCall) {
  const StandingStore standing;
  GroupEnvironment environment = standing.agent_environment();
  FakeRankLink link;
  for (environment.restart_count = 0; environment.restart_count < 2; ++environment.restart_count) {
    const auto rank1 = opened(environment, 1);
    ASSERT_TRUE(rank1);
    const auto met = answer_roll_call(*rank1, {.rank = 1, .world_size = 2, .deadline = 1ms}, link);
    ASSERT_FALSE(met) << "rank 0 has not come to the group of restart " << environment.restart_count;
    EXPECT_EQ(met.error().kind, ErrorKind::timeout);
    EXPECT_NE(met.error().message.find("rank 0 of 2 has not come"), std::string::npos) << met.error().message;
    const auto rank0 = opened(environment, 0);
    ASSERT_TRUE(rank0);
    EXPECT_TRUE(answer_roll_call(*rank0, {.rank = 0, .world_size = 2, .deadline = 1min}, link));
  }
}

}  // namespace
}  // namespace trainyard::dist

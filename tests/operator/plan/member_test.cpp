#include "operator/plan/member.hpp"

#include <gtest/gtest.h>

#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using builders::a_job;
using builders::an_observed;
using builders::later;
using builders::start;
using resource::ContainerStatus;
using resource::ContainerTermination;
using resource::PodPhase;
using namespace std::chrono_literals;

void expect_ending(const std::string& sentence, const std::optional<Ending>& ending,
                   const std::optional<Ending>& expected) {
  ASSERT_EQ(ending.has_value(), expected.has_value()) << sentence;
  if (!ending) return;
  EXPECT_EQ(ending->exit_code, expected->exit_code) << sentence;
  EXPECT_EQ(ending->reason, expected->reason) << sentence;
  EXPECT_EQ(ending->kubelet_reason, expected->kubelet_reason) << sentence;
  EXPECT_EQ(ending->message, expected->message) << sentence;
  EXPECT_EQ(ending->culprit, expected->culprit) << sentence;
  EXPECT_EQ(ending->culprit_exit_code, expected->culprit_exit_code) << sentence;
  EXPECT_EQ(ending->progress, expected->progress) << sentence;
  EXPECT_EQ(ending->at, expected->at) << sentence;
}

TEST(MemberOf, ReturnsThePodsStateAndHowItEnded) {
  using Change = void (*)(resource::Pod&);
  struct Row {
    std::string sentence;
    Change change;
    MemberState state;
    std::optional<Ending> ending;
    bool is_leaving = false;
  };
  static const ContainerStatus failed_worker{
      .name = "worker",
      .terminated = ContainerTermination{.exit_code = 3, .reason = "Error", .message = "boom", .finished_at = start}};
  static const ContainerStatus failed_init{
      .name = "fetch",
      .terminated =
          ContainerTermination{.exit_code = 4, .reason = "Error", .message = "no bucket", .finished_at = start}};
  static const ContainerStatus done_init{.name = "first", .terminated = ContainerTermination{.exit_code = 0}};
  const Ending boom{.exit_code = 3, .reason = "Error", .kubelet_reason = "Error", .message = "boom", .at = start};
  const Ending no_bucket{.exit_code = 4,
                         .reason = "Error",
                         .kubelet_reason = "Error",
                         .message = "init container 'fetch' failed: no bucket",
                         .at = start};
  const std::vector<Row> rows{
      {"its worker runs", [](resource::Pod&) {}, MemberState::running, {}},
      {"it is to go", [](resource::Pod& pod) { pod.metadata.deletion_time = later; }, MemberState::running, {}, true},
      {"its worker does not run yet",
       [](resource::Pod& pod) { pod.containers[0].is_running = false; },
       MemberState::waiting,
       {}},
      {"its kubelet has said nothing of containers",
       [](resource::Pod& pod) {
         pod.phase = PodPhase::pending;
         pod.containers.clear();
       },
       MemberState::waiting,
       {}},
      {"its worker has failed", [](resource::Pod& pod) { pod.containers = {failed_worker}; }, MemberState::failed,
       boom},
      {"whatever the pod says by then",
       [](resource::Pod& pod) {
         pod.containers = {failed_worker};
         pod.phase = PodPhase::succeeded;
       },
       MemberState::failed, boom},
      {"it has succeeded, and nothing is known of its worker",
       [](resource::Pod& pod) {
         pod.containers.clear();
         pod.phase = PodPhase::succeeded;
       },
       MemberState::succeeded,
       {}},
      {"it has failed, and nothing is known of its worker",
       [](resource::Pod& pod) {
         pod.containers.clear();
         pod.phase = PodPhase::failed;
         pod.reason = "Evicted";
         pod.message = "no memory";
       },
       MemberState::failed, Ending{.reason = "Evicted", .message = "no memory"}},
      {"an init container has failed, and neither the one before it nor one that still runs",
       [](resource::Pod& pod) {
         pod.containers[0].is_running = false;
         pod.phase = PodPhase::failed;
         pod.init_containers = {{.name = "sidecar", .is_running = true}, done_init, failed_init};
       },
       MemberState::failed, no_bucket},
  };
  for (const Row& row : rows) {
    Observed observed = an_observed();
    row.change(observed.pods.at(1));
    const Member member = member_of(observed, observed.pods.at(1));
    EXPECT_EQ(member.pod_index, 1) << row.sentence;
    EXPECT_EQ(member.state, row.state) << row.sentence;
    EXPECT_EQ(member.pod, &observed.pods.at(1)) << row.sentence;
    EXPECT_EQ(member.is_leaving, row.is_leaving) << row.sentence;
    expect_ending(row.sentence, member.ending, row.ending);
  }
}

TEST(MemberOf, ReadsWhatTheWorkerWroteLast) {
  struct Row {
    std::string sentence;
    std::string message;
    Ending expected;
    int exit_code = 1;
  };
  // Fields that a row does not name are as the kubelet reports them.
  const auto ending = [](Ending said) {
    if (!said.exit_code) said.exit_code = 1;
    if (said.reason.empty()) said.reason = "Error";
    said.kubelet_reason = "Error";
    said.at = start;
    return said;
  };
  const std::vector<Row> rows{
      {"plain words", "boom", ending({.message = "boom"})},
      {"JSON that is no object", "[1]", ending({.message = "[1]"})},
      {"an object without our fields", R"({"a": 1})", ending({.message = R"({"a": 1})"})},
      {"all of it",
       R"({"reason": "PeerLost", "message": "lost", "exitCode": 90, "culprit": 5, "culpritExitCode": 137,
           "progress": {"step": 7}})",
       ending({.exit_code = 90,
               .reason = "PeerLost",
               .message = "lost",
               .culprit = 2,
               .culprit_exit_code = 137,
               .progress = ProgressReport{.attempt = 1, .step = 7}})},
      {"the first and the last code that have a meaning", R"({"exitCode": 97, "message": "x", "culpritExitCode": 255})",
       ending({.exit_code = 97, .message = "x", .culprit_exit_code = 255})},
      {"codes that have none", R"({"exitCode": 89, "message": "x", "culpritExitCode": 256})", ending({.message = "x"})},
      {"one above", R"({"exitCode": 98, "message": "x"})", ending({.message = "x"})},
      {"numbers that cannot be", R"({"culprit": -1, "message": "x", "culpritExitCode": -1})", ending({.message = "x"})},
      {"a culprit that ended with 0", R"({"culprit": 0, "message": "x", "culpritExitCode": 0})",
       ending({.message = "x", .culprit = 0, .culprit_exit_code = 0})},
      {"other types", R"({"reason": 1, "message": "x", "exitCode": "90", "culprit": 1.5, "progress": []})",
       ending({.message = "x"})},
      {"empty words say nothing", R"({"reason": "", "message": ""})",
       ending({.message = R"({"reason": "", "message": ""})"})},
      {"a success keeps its code", R"({"reason": "Completed", "message": "x", "exitCode": 90})",
       ending({.exit_code = 0, .reason = "Completed", .message = "x"}), 0},
  };
  for (const Row& row : rows) {
    const Observed observed =
        an_observed(a_job().replicas(4).gpus_per_pod(2)).ended(1, row.exit_code, row.message, "Error");
    expect_ending(row.sentence, member_of(observed, observed.pods.at(1)).ending, row.expected);
  }
}

TEST(MemberOf, TakesARankForItsPodWhereAPodHasOneForAllItsGpus) {
  Observed observed = an_observed(a_job().replicas(4).gpus_per_pod(2)).ended(1, 83, R"({"culprit": 3})", "Error");
  observed.job.spec.training->strategy = {.name = api::StrategyName::ddp2};
  EXPECT_EQ(member_of(observed, observed.pods.at(1)).ending->culprit, 3);
}

TEST(MembersOf, AreTheRanksThatTheAttemptWasFormedWith) {
  const auto states = [](const Observed& observed) {
    std::vector<MemberState> states;
    for (const Member& member : members_of(observed)) {
      EXPECT_EQ(member.pod_index, static_cast<std::int64_t>(states.size()));
      states.push_back(member.state);
    }
    return states;
  };
  constexpr auto missing = MemberState::missing;
  constexpr auto running = MemberState::running;
  constexpr auto succeeded = MemberState::succeeded;
  using States = std::vector<MemberState>;
  EXPECT_EQ(states(an_observed().missing(0)), (States{missing, running}));
  EXPECT_EQ(states(an_observed().with([](Observed& observed) {
              observed.job.spec.replicas = 5;  // An edit that waits for the next attempt.
            })),
            (States{running, running}));
  EXPECT_EQ(states(an_observed(a_job().replicas(3)).with([](Observed& observed) {
              observed.job.status.replicas.desired = 2;
            })),
            (States{running, running}))
      << "a pod of a rank beyond the group";
  EXPECT_EQ(states(an_observed().with([](Observed& observed) {
              observed.job.status.attempt = 2;  // The pods are the first attempt's.
            })),
            (States{missing, missing}));
  EXPECT_EQ(states(an_observed().missing(0).with([](Observed& observed) {
              observed.job.status.succeeded_ranks = {-1, 0, 2};
            })),
            (States{succeeded, running}))
      << "what is recorded of ranks that there are";
  EXPECT_EQ(
      states(an_observed().ended(0, 143).with([](Observed& observed) { observed.job.status.succeeded_ranks = {0}; })),
      (States{succeeded, running}))
      << "also while the pod is still there: one that is deleted in the second of its end looks stopped";
  EXPECT_EQ(states(an_observed().with([](Observed& observed) { observed.job.status.replicas.desired = -1; })),
            States{});
}

TEST(IsLive, IsAPodThatStillHoldsResources) {
  using Change = void (*)(resource::Pod&);
  static const auto end = [](ContainerStatus& container) { container.terminated = ContainerTermination{}; };
  const std::vector<std::tuple<std::string, Change, bool>> rows{
      {"one whose worker runs", [](resource::Pod&) {}, true},
      {"one that no node has, of which no container is known",
       [](resource::Pod& pod) {
         pod.phase = PodPhase::pending;
         pod.containers.clear();
       },
       true},
      {"one whose only container has ended", [](resource::Pod& pod) { end(pod.containers[0]); }, false},
      {"one of two containers has",
       [](resource::Pod& pod) {
         end(pod.containers[0]);
         pod.containers.push_back({.name = "proxy", .is_running = true});
       },
       true},
      {"one that has succeeded", [](resource::Pod& pod) { pod.phase = PodPhase::succeeded; }, false},
      {"one that has failed", [](resource::Pod& pod) { pod.phase = PodPhase::failed; }, false},
      {"one of which its node says nothing", [](resource::Pod& pod) { pod.phase = PodPhase::unknown; }, true},
      {"one that is to go", [](resource::Pod& pod) { pod.metadata.deletion_time = start; }, true},
  };
  for (const auto& [sentence, change, is_expected] : rows) {
    resource::Pod pod = an_observed().build().pods.at(0);
    change(pod);
    EXPECT_EQ(is_live(pod), is_expected) << sentence;
  }
}

TEST(HasDisruptionTarget, IsTheConditionWhileItHolds) {
  resource::Pod pod = an_observed().disrupted(0).build().pods.at(0);
  EXPECT_TRUE(has_disruption_target(pod));
  pod.conditions.back().is_true = false;
  EXPECT_FALSE(has_disruption_target(pod));
  pod.conditions.back() = {.type = "Ready", .is_true = true};
  EXPECT_FALSE(has_disruption_target(pod));
}

TEST(IsOnLostNode, IsNoPodWhoseNodeIsUnknownOrOnlyNotReady) {
  Observed observed = an_observed().on_lost_node(1);
  EXPECT_TRUE(is_on_lost_node(observed, observed.pods.at(1)));
  EXPECT_FALSE(is_on_lost_node(observed, observed.pods.at(0)));
  observed.nodes.at("node-1").is_unreachable = false;
  EXPECT_FALSE(is_on_lost_node(observed, observed.pods.at(1)));
  observed.nodes.clear();
  EXPECT_FALSE(is_on_lost_node(observed, observed.pods.at(1)));
}

}  // namespace
}  // namespace trainyard::plan

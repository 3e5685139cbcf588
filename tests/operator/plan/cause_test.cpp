#include "operator/plan/cause.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using builders::a_job;
using builders::an_observed;
using builders::ObservedBuilder;
using builders::start;
using namespace std::chrono_literals;

Judgement judge(const Observed& observed, Time now = start + 10s) {
  return judge_members(observed, members_of(observed), now);
}

std::string ours(int exit_code, std::string_view rest = "") {
  return fmt::format(R"({{"reason": "Said", "exitCode": {}, "message": "said so"{}}})", exit_code, rest);
}

struct Case {
  std::string sentence;
  Observed observed;
  Cause cause;
  std::int64_t pod_index;
  std::optional<int> exit_code;
  bool is_final = false;
};

TEST(JudgeMembers, BlamesTheRankAndTheCause) {
  const std::vector<Case> cases{
      {"an exception is the application's", an_observed().ended(1, 1), Cause::application, 1, 1},
      {"OOMKilled is the application's", an_observed().ended(1, 137, "", "OOMKilled"), Cause::application, 1, 137},
      {"137 alone is the application's", an_observed().ended(1, 137), Cause::application, 1, 137},
      {"143 alone is the application's", an_observed().ended(1, 143), Cause::application, 1, 143},
      {"137 of an evicted pod is infrastructure", an_observed().ended(1, 137).disrupted(1), Cause::infrastructure, 1,
       137},
      {"137 on a lost node is infrastructure", an_observed().ended(1, 137).on_lost_node(1), Cause::infrastructure, 1,
       137},
      {"a running pod on a lost node is lost", an_observed().on_lost_node(1), Cause::infrastructure, 1, {}},
      {"a waiting pod on a lost node is lost", an_observed().waiting(1).on_lost_node(1), Cause::infrastructure, 1, {}},
      {"93 means do not restart", an_observed().ended(1, 93), Cause::application, 1, 93, true},
      {"93 in the termination message does too, whatever the launcher made of it", an_observed().ended(1, 1, ours(93)),
       Cause::application, 1, 93, true},
      {"93 on a node that was lost afterwards still does", an_observed().ended(1, 93).on_lost_node(1),
       Cause::application, 1, 93, true},
      {"93 outranks every other end", an_observed().ended(0, 1).ended(1, 93), Cause::application, 1, 93, true},
      {"a rank that lost its peer is not to blame", an_observed().ended(0, 90, ours(90)).ended(1, 1),
       Cause::application, 1, 1},
      {"one that torchrun reports as 1 neither", an_observed().ended(0, 1, ours(90)).ended(1, 2), Cause::application, 1,
       2},
      {"the deleted pod is to blame when the others were asked to stop with it",
       an_observed().ended(0, 91, ours(91)).ended(1, 91, ours(91)).leaving(1), Cause::deleted, 1, 91},
      {"a rank that was asked to stop, by whomever, is infrastructure", an_observed().ended(1, 91, ours(91)),
       Cause::infrastructure, 1, 91},
      {"it is a better witness than one that lost a peer", an_observed().ended(0, 90, ours(90)).ended(1, 91, ours(91)),
       Cause::infrastructure, 1, 91},
      {"and a worse one than a rank that fails by itself", an_observed().ended(0, 91, ours(91)).ended(1, 1),
       Cause::application, 1, 1},
      {"the end of a deleted pod outranks the peer that fails for it", an_observed().ended(0, 1).ended(1, 2).leaving(1),
       Cause::deleted, 1, 2},
      {"a pod that vanished unseen is Deleted, without an exit code", an_observed().missing(1), Cause::deleted, 1, {}},
      {"being deleted is enough where nothing is to be saved", an_observed().leaving(1), Cause::deleted, 1, {}},
      {"being evicted is infrastructure", an_observed().leaving(1).disrupted(1), Cause::infrastructure, 1, {}},
      {"a deleted pod outranks the peer that fails for it",
       an_observed().ended(0, 1).missing(1),
       Cause::deleted,
       1,
       {}},
      {"storage that fails for long is infrastructure", an_observed().ended(1, 96, ours(96)), Cause::infrastructure, 1,
       96},
      {"a GPU that the node did not give, or that failed, is infrastructure", an_observed().ended(1, 97, ours(97)),
       Cause::infrastructure, 1, 97},
      {"so it is where the launcher ended with another code", an_observed().ended(1, 1, ours(97)),
       Cause::infrastructure, 1, 97},
      {"a hang is the application's", an_observed().ended(1, 95, ours(95)), Cause::application, 1, 95},
      {"being fenced is infrastructure", an_observed().ended(1, 92, ours(92)), Cause::infrastructure, 1, 92},
      {"a container that its kubelet lost is infrastructure", an_observed().ended(1, 137, "", "ContainerStatusUnknown"),
       Cause::infrastructure, 1, 137},
      {"one that the runtime lost with its exit code is too", an_observed().ended(1, 255, "", "Unknown"),
       Cause::infrastructure, 1, 255},
      {"one that the kubelet killed unseen is too", an_observed().ended(1, 137, "", "Unknown"), Cause::infrastructure,
       1, 137},
      {"any other code of an unknown end is the application's", an_observed().ended(1, 1, "", "Unknown"),
       Cause::application, 1, 1},
      {"255 alone is the application's", an_observed().ended(1, 255), Cause::application, 1, 255},
      {"a container whose start fails at its node is infrastructure",
       an_observed().ended(1, 128, "error running prestart hook #0: nvidia-container-cli: no device", "StartError"),
       Cause::infrastructure, 1, 128},
      {"one that cannot run there is too", an_observed().ended(1, 127, "no space left", "ContainerCannotRun"),
       Cause::infrastructure, 1, 127},
      {"a command that the image lacks is the application's",
       an_observed().ended(1, 128, R"(unable to start container process: exec: "trian": not found in $PATH)",
                           "StartError"),
       Cause::application, 1, 128},
      {"in the words of another runtime too",
       an_observed().ended(1, 127, "executable file `trian` not found in $PATH", "ContainerCannotRun"),
       Cause::application, 1, 127},
      {"a node's failure outranks the peer that ends for it",
       an_observed().ended(0, 1).ended(1, 137, "", "ContainerStatusUnknown"), Cause::infrastructure, 1, 137},
      {"a worker cannot blame its node in its own words",
       an_observed().ended(1, 1, R"({"reason": "ContainerStatusUnknown", "exitCode": 1})"), Cause::application, 1, 1},
      {"the first of two to end is to blame", an_observed().ended(0, 1).ended(1, 2).with([](Observed& observed) {
         observed.pods[0].containers[0].terminated->finished_at = start + 1s;
       }),
       Cause::application, 1, 2},
  };
  for (const Case& c : cases) {
    const auto end = judge(c.observed).end;
    ASSERT_TRUE(end) << c.sentence;
    EXPECT_EQ(end->cause, c.cause) << c.sentence;
    EXPECT_EQ(end->pod_index, c.pod_index) << c.sentence;
    EXPECT_EQ(end->exit_code, c.exit_code) << c.sentence;
    EXPECT_EQ(end->is_final, c.is_final) << c.sentence;
    EXPECT_TRUE(end->is_charged) << c.sentence;
  }
}

TEST(JudgeMembers, FindsNothingWrongWithAGroupThat) {
  const std::vector<std::pair<std::string, Observed>> cases{
      {"runs", an_observed()},
      {"waits for an image", an_observed().waiting(1, "ImagePullBackOff")},
      {"has finished in part", an_observed().ended(0, 0)},
      {"still forms", an_observed().unformed().missing(1)},
      {"has lost a pod after its success was recorded",
       an_observed().missing(0).with([](Observed& observed) { observed.job.status.succeeded_ranks = {0}; })},
      {"has a sidecar left over beside a finished worker", an_observed().ended(0, 0).with([](Observed& observed) {
         observed.pods[0].phase = resource::PodPhase::running;
         observed.pods[0].containers.push_back({.name = "proxy", .is_running = true});
       })},
      {"has a failed sidecar beside a worker that runs", an_observed().with([](Observed& observed) {
         observed.pods[0].containers.push_back(
             {.name = "proxy", .terminated = resource::ContainerTermination{.exit_code = 1}});
       })},
      {"has an older attempt's failed pod", an_observed().with([](Observed& observed) {
         auto old = builders::a_pod(observed.job, 0, 1);
         old.phase = resource::PodPhase::failed;
         observed.pods.push_back(old);
       })},
  };
  for (const auto& [sentence, observed] : cases) {
    const Judgement judgement = judge(observed);
    EXPECT_FALSE(judgement.end) << sentence;
    EXPECT_FALSE(judgement.requeue_after) << sentence;
  }
}

TEST(JudgeMembers, WaitsTwoWholeSecondsForABetterWitnessThanALostPeer) {
  // The container's end is written as a whole second: it may have come up to a second later.
  const Observed observed = an_observed().ended(0, 90, ours(90));
  EXPECT_FALSE(judge(observed, start + 500ms).end);
  EXPECT_EQ(judge(observed, start + 500ms).requeue_after, 2500ms);
  EXPECT_FALSE(judge(observed, start + 2999ms).end);
  EXPECT_TRUE(judge(observed, start + 3s).end);
}

TEST(JudgeMembers, WaitsAsLongForABetterWitnessThanARankThatWasAskedToStop) {
  const Observed observed = an_observed().ended(0, 91, ours(91));
  EXPECT_EQ(judge(observed, start + 500ms).requeue_after, 2500ms);
  EXPECT_TRUE(judge(observed, start + 3s).end);
}

TEST(JudgeMembers, DoesNotWaitLongerWhenTheNodesClockRunsAhead) {
  EXPECT_FALSE(judge(an_observed().ended(0, 90, ours(90)), start - 2s).end) << "a clock may be two seconds ahead";
  EXPECT_TRUE(judge(an_observed().ended(0, 90, ours(90)), start - 2001ms).end);
  EXPECT_TRUE(judge(an_observed().ended(0, 90, ours(90)), start - 1h).end);
}

TEST(JudgeMembers, BlamesTheNamedPeerWhenNobodyElseReportsAndAvoidsItsNode) {
  const auto end = judge(an_observed().ended(0, 90, ours(90, R"(, "culprit": 1)"))).end;
  ASSERT_TRUE(end);
  EXPECT_EQ(end->cause, Cause::infrastructure);
  EXPECT_EQ(end->pod_index, 1);
  EXPECT_EQ(end->pod, "smoke-c0de-1-1");
  EXPECT_EQ(end->node, "node-1");
  EXPECT_FALSE(end->exit_code);
  EXPECT_EQ(end->lost_nodes, std::vector<std::string>{"node-1"});
  EXPECT_EQ(end->message, "pod 0 lost a peer: exit code 90 (Said): said so");
}

TEST(JudgeMembers, BlamesRank0LikeAnyOtherNamedPeer) {
  const auto end = judge(an_observed().ended(1, 90, ours(90, R"(, "culprit": 0)"))).end;
  ASSERT_TRUE(end);
  EXPECT_EQ(end->pod_index, 0);
  EXPECT_EQ(end->pod, "smoke-c0de-1-0");
}

TEST(JudgeMembers, TakesALauncherAtItsWordOfHowItsPeerEndedAndAvoidsNoNode) {
  const auto judged = [](int code) {
    const std::string named = fmt::format(R"(, "culprit": 1, "culpritExitCode": {})", code);
    return *judge(an_observed().ended(0, 90, ours(90, named))).end;
  };
  EXPECT_TRUE(judged(93).is_final);
  EXPECT_EQ(judged(93).cause, Cause::application);
  EXPECT_EQ(judged(96).cause, Cause::infrastructure);
  EXPECT_FALSE(judged(96).is_final);
  EXPECT_EQ(judged(91).cause, Cause::infrastructure) << "its node was drained, and took its own report along";
  EXPECT_FALSE(judged(1).is_final);
  EXPECT_EQ(judged(1).pod_index, 1);
  EXPECT_EQ(judged(1).exit_code, 1);
  EXPECT_EQ(judged(1).cause, Cause::application);
  EXPECT_TRUE(judged(1).lost_nodes.empty());
}

TEST(JudgeMembers, AvoidsTheNodeThatDidNotGiveItsGpus) {
  const auto own_word = judge(an_observed().ended(0, 90, ours(90, R"(, "culprit": 1)")).ended(1, 97, ours(97))).end;
  ASSERT_TRUE(own_word);
  EXPECT_EQ(own_word->pod_index, 1);
  EXPECT_EQ(own_word->lost_nodes, std::vector<std::string>{"node-1"});
  const auto another_to_blame = judge(an_observed().ended(0, 1).ended(1, 97, ours(97))).end;
  ASSERT_TRUE(another_to_blame);
  EXPECT_EQ(another_to_blame->pod_index, 0);
  EXPECT_EQ(another_to_blame->lost_nodes, std::vector<std::string>{"node-1"});
  const auto nowhere = judge(an_observed().ended(1, 97, ours(97)).with([](Observed& observed) {
                         observed.pods[1].node_name.clear();
                       })).end;
  ASSERT_TRUE(nowhere);
  EXPECT_TRUE(nowhere->lost_nodes.empty()) << "no node is known";
  const auto told = judge(an_observed().ended(0, 90, ours(90, R"(, "culprit": 1, "culpritExitCode": 97)"))).end;
  ASSERT_TRUE(told);
  EXPECT_EQ(told->cause, Cause::infrastructure);
  EXPECT_EQ(told->lost_nodes, std::vector<std::string>{"node-1"});
}

TEST(JudgeMembers, BelievesNoNameThatIsNoRanks) {
  for (const char* named : {"", R"(, "culprit": 2)", R"(, "culprit": -1)"}) {
    const auto end = judge(an_observed().ended(0, 90, ours(90, named))).end;
    ASSERT_TRUE(end) << named;
    EXPECT_EQ(end->pod_index, 0) << named;
    EXPECT_EQ(end->pod, "smoke-c0de-1-0") << named;
    EXPECT_EQ(end->exit_code, 90) << named;
    EXPECT_EQ(end->message, "pod 0 lost a peer: exit code 90 (Said): said so") << named;
    EXPECT_TRUE(end->lost_nodes.empty()) << named;
  }
}

TEST(JudgeMembers, SaysWhatIsKnownOfANamedPeer) {
  const std::string names_1 = R"(, "culprit": 1)";
  const Observed no_pod = an_observed().unformed().ended(0, 90, ours(90, names_1)).missing(1);
  EXPECT_EQ(judge(no_pod).end, (AttemptEnd{.cause = Cause::infrastructure,
                                           .pod_index = 1,
                                           .message = "pod 0 lost a peer: exit code 90 (Said): said so"}));
  const Observed lost_its_peer_too = an_observed().ended(0, 90, ours(90, names_1)).ended(1, 90, ours(90));
  EXPECT_EQ(judge(lost_its_peer_too).end, (AttemptEnd{.cause = Cause::infrastructure,
                                                      .pod_index = 1,
                                                      .pod = "smoke-c0de-1-1",
                                                      .node = "node-1",
                                                      .exit_code = 90,
                                                      .message = "pod 0 lost a peer: exit code 90 (Said): said so"}))
      << "its kubelet has spoken, so its node is not avoided";
  const Observed waits = an_observed().ended(0, 90, ours(90, names_1)).waiting(1);
  EXPECT_TRUE(judge(waits).end->lost_nodes.empty()) << "it never ran there";
}

TEST(JudgeMembers, BlamesTheNodeForWhateverItsKubeletEnds) {
  for (const char* reason :
       {"Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "UnexpectedAdmissionError",
        "NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfnvidia.com/gpu"}) {
    const Observed observed =
        an_observed().ended(1, 1).with([&](Observed& changed) { changed.pods[1].reason = reason; });
    EXPECT_EQ(judge(observed).end->cause, Cause::infrastructure) << reason;
  }
  const auto other = an_observed().ended(1, 1).with([](Observed& changed) { changed.pods[1].reason = "Error"; });
  EXPECT_EQ(judge(other).end->cause, Cause::application);
}

TEST(JudgeMembers, WaitsForNoSaveOfAPodThatDoesNotRun) {
  const auto deleted = judge(an_observed(a_job().checkpoint()).waiting(1).leaving(1, start + 120s));
  ASSERT_TRUE(deleted.end);
  EXPECT_EQ(*deleted.end, (AttemptEnd{.cause = Cause::deleted,
                                      .pod_index = 1,
                                      .pod = "smoke-c0de-1-1",
                                      .node = "node-1",
                                      .message = "the pod is being deleted"}));
}

TEST(JudgeMembers, WaitsForTheWitnessThatMaySpeakFirst) {
  const Observed observed = an_observed(a_job().checkpoint()).ended(0, 90, ours(90)).leaving(1, start + 120s);
  EXPECT_EQ(judge(observed, start + 500ms).requeue_after, 2500ms);
  const Observed undated = an_observed().ended(0, 90, ours(90)).with([](Observed& changed) {
    changed.pods[0].containers[0].terminated->finished_at.reset();
  });
  EXPECT_TRUE(judge(undated, start).end) << "an end that nobody dated may be long ago";
}

TEST(JudgeMembers, NamesEachLostNodeOnce) {
  const Observed observed = an_observed().on_lost_node(0).on_lost_node(1).with(
      [](Observed& changed) { changed.pods[1].node_name = changed.pods[0].node_name; });
  EXPECT_EQ(judge(observed).end->lost_nodes, std::vector<std::string>{"node-0"});
  const auto both = judge(an_observed().on_lost_node(0).on_lost_node(1)).end;
  EXPECT_EQ(both->lost_nodes, (std::vector<std::string>{"node-0", "node-1"}))
      << "of every member, not the culprit's alone";
}

TEST(JudgeMembers, NamesTheCulpritByItsPodIfAPodHoldsSeveralRanks) {
  const auto end = judge(an_observed(a_job().gpus_per_pod(4)).ended(0, 90, ours(90, R"(, "culprit": 6)"))).end;
  ASSERT_TRUE(end);
  EXPECT_EQ(end->pod_index, 1);
}

TEST(JudgeMembers, LetsADeletedPodsGroupSaveItsCheckpoint) {
  const Observed observed = an_observed(a_job().checkpoint()).leaving(1, start + 120s);
  EXPECT_FALSE(judge(observed, start + 10s).end);
  EXPECT_EQ(judge(observed, start + 10s).requeue_after, 112s);
  const auto end = judge(observed, start + 122s).end;
  ASSERT_TRUE(end) << "the grace period is over and its node says nothing";
  EXPECT_EQ(end->cause, Cause::deleted);
}

TEST(JudgeMembers, TakesExitZeroForSuccessUnlessThePodWasAskedToStopFirst) {
  const auto asked_to_stop_at = [](Time asked_at, const std::string& message) {
    return an_observed().ended(1, 0, message).leaving(1, asked_at + 30s).with([](Observed& observed) {
      observed.pods[1].metadata.deletion_grace = 30s;
    });
  };
  const auto complete = R"({"reason": "Completed", "exitCode": 0, "message": "trained 900 steps"})";
  const auto already = R"({"reason": "AlreadyComplete", "exitCode": 0})";
  EXPECT_FALSE(judge(asked_to_stop_at(start + 1s, "")).end) << "it had ended by then";
  EXPECT_FALSE(judge(asked_to_stop_at(start - 5s, complete)).end);
  EXPECT_FALSE(judge(asked_to_stop_at(start - 5s, already)).end);
  EXPECT_TRUE(judge(asked_to_stop_at(start - 5s, R"({"reason": "Preempted", "exitCode": 0})")).end);
  for (const Time asked_at : {start - 5s, start, start + 999ms}) {
    const auto end = judge(asked_to_stop_at(asked_at, "")).end;
    ASSERT_TRUE(end);
    EXPECT_EQ(end->cause, Cause::deleted);
    EXPECT_EQ(end->exit_code, 0);
    EXPECT_EQ(end->message, "the pod was deleted; exit code 0");
  }
  EXPECT_EQ(judge(asked_to_stop_at(start, "").disrupted(1)).end->cause, Cause::infrastructure);
}

TEST(JudgeMembers, AvoidsNodesThatTakeTheirPodsAlong) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> reasons_and_nodes{
      {"DeletionByTaintManager", {"node-1"}}, {"TerminationByKubelet", {"node-1"}}, {"PreemptionByScheduler", {}}};
  for (const auto& [reason, nodes] : reasons_and_nodes) {
    EXPECT_EQ(judge(an_observed().ended(1, 137).disrupted(1, reason)).end->lost_nodes, nodes) << reason;
  }
  const resource::PodCondition another{.type = "Ready", .is_true = true, .reason = "DeletionByTaintManager"};
  const resource::PodCondition over{.type = "DisruptionTarget", .is_true = false, .reason = "DeletionByTaintManager"};
  for (const resource::PodCondition& condition : {another, over}) {
    const Observed observed =
        an_observed().ended(1, 137).with([&](Observed& changed) { changed.pods[1].conditions.push_back(condition); });
    EXPECT_TRUE(judge(observed).end->lost_nodes.empty()) << condition.type;
  }
}

TEST(JudgeMembers, ChargesNobodyWhenRanksGaveUpOnOneThatHasNoPlaceYet) {
  const std::vector<std::pair<std::string, Observed>> cases{
      {"no node has room", an_observed().ended(0, 94, ours(94)).unscheduled(1, "no room")},
      {"no quota has room", an_observed().unformed().ended(0, 94, ours(94)).missing(1)}};
  for (const auto& [sentence, observed] : cases) {
    const auto end = judge(observed).end;
    ASSERT_TRUE(end) << sentence;
    EXPECT_EQ(end->cause, Cause::infrastructure) << sentence;
    EXPECT_FALSE(end->is_charged) << sentence;
  }
  EXPECT_TRUE(judge(an_observed().ended(0, 94, ours(94))).end->is_charged) << "all had their place";
  EXPECT_TRUE(judge(an_observed().unformed().ended(0, 94, ours(94))).end->is_charged) << "as nobody has recorded yet";
}

TEST(JudgeMembers, NamesThePodsThatItBelievesToBeGone) {
  EXPECT_EQ(judge(an_observed().missing(1)).absent_pods, std::vector<std::string>{"smoke-c0de-1-1"});
  EXPECT_TRUE(judge(an_observed().unformed().missing(1)).absent_pods.empty());
}

TEST(JudgeMembers, TakesThePodsWordWhereItsWorkerNeverRan) {
  const auto evicted = judge(an_observed().with([](Observed& observed) {
                         observed.pods[1].phase = resource::PodPhase::failed;
                         observed.pods[1].reason = "Evicted";
                         observed.pods[1].message = "The node was low on resource: memory.";
                         observed.pods[1].containers.clear();
                       })).end;
  ASSERT_TRUE(evicted);
  EXPECT_EQ(evicted->cause, Cause::infrastructure);
  EXPECT_EQ(evicted->message, "ended (Evicted): The node was low on resource: memory.");

  const auto init_failed = judge(an_observed().with([](Observed& observed) {
                             observed.pods[1].phase = resource::PodPhase::failed;
                             observed.pods[1].containers = {{.name = "worker", .waiting_reason = "PodInitializing"}};
                             observed.pods[1].init_containers = {{.name = "fetch",
                                                                  .terminated = resource::ContainerTermination{
                                                                      .exit_code = 3, .message = "no such bucket"}}};
                           })).end;
  ASSERT_TRUE(init_failed);
  EXPECT_EQ(init_failed->cause, Cause::application);
  EXPECT_EQ(init_failed->exit_code, 3);
  EXPECT_EQ(init_failed->message, "exit code 3: init container 'fetch' failed: no such bucket");
}

TEST(JudgeMembers, LooksOnlyAtTheContainerThatTrains) {
  const auto multi = [](const std::string& second) {
    return an_observed(a_job().pod_template(R"({"spec": {"containers": [{"name": "train", "image": "a"}]}})"))
        .with([&](Observed& observed) {
          // A webhook put its proxy first.
          observed.pods[1].containers = {{.name = second, .terminated = resource::ContainerTermination{.exit_code = 2}},
                                         {.name = "train", .is_running = true}};
        });
  };
  EXPECT_FALSE(judge(multi("istio-proxy")).end);
}

TEST(JudgeMembers, BlamesTheFirstOfEqualsWhoseEndHasATime) {
  const Observed observed = an_observed().ended(0, 1, "late").ended(1, 2, "first").with([](Observed& changed) {
    changed.pods[0].containers[0].terminated->finished_at.reset();
  });
  const Judgement judgement = judge(observed);
  ASSERT_TRUE(judgement.end);
  EXPECT_EQ(judgement.end->pod_index, 1) << "whose end nobody dated proves nothing of who was first";
  EXPECT_EQ(judgement.end->exit_code, 2);
}

}  // namespace
}  // namespace trainyard::plan

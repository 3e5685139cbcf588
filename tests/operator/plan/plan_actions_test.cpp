#include "operator/plan/plan_actions.hpp"

#include <gtest/gtest.h>

#include "operator/manifest/objects.hpp"
#include "operator/manifest/worker_pod.hpp"
#include "tests/builders/action_words.hpp"
#include "tests/operator/plan/decision_case.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;
using api::RequestState;
using builders::a_job;
using builders::later;
using builders::ObservedBuilder;
using builders::start;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

/// The third attempt forms; of the second a pod still runs, and of the first a failed one is left.
ObservedBuilder between_attempts(const std::vector<std::int64_t>& missing = {}) {
  ObservedBuilder observed = after_a_life().unformed();
  for (const std::int64_t index : missing) observed.missing(index);
  return observed.with([](Observed& changed) {
    changed.pods.push_back(builders::a_pod(changed.job, 2, 1));
    changed.pods.push_back(builders::a_pod(changed.job, 1, 0));
    changed.pods.back().phase = resource::PodPhase::failed;
  });
}

auto saving(RequestState state) {
  return [=](Observed& observed) {
    observed.job.status.suspend_request = api::CheckpointRequest{.id = "suspend-4", .state = state, .time = start + 6s};
  };
}

auto not_before(Time time) {
  return [=](Observed& observed) { observed.job.status.restart_not_before = time; };
}

void without_service(Observed& observed) {
  observed.service.reset();
}

auto selecting_attempt(std::int64_t attempt) {
  return [=](Observed& observed) { observed.service->attempt = attempt; };
}

ObservedBuilder new_job(bool is_accepted) {
  return ObservedBuilder{}.with([&](Observed& observed) {
    observed = builders::first_sight();
    observed.is_template_accepted = is_accepted;
    observed.job.status.phase = Phase::pending;
  });
}

TEST(PlanActions, BringThePodsToWhatTheStatusSays) {
  struct Row {
    std::string sentence;
    Observed observed;
    Words actions;
    std::optional<std::chrono::milliseconds> requeue_after = {};
  };
  const Words older{"delete smoke-c0de-2-1", "delete smoke-c0de-1-0"};
  const auto older_and = [&](const Words& more) {
    Words words = older;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto selecting_none_and = [](Words words) {
    words.insert(words.begin(), "select no pods");
    return words;
  };
  const Words live{"delete smoke-c0de-3-0", "delete smoke-c0de-3-1", "delete smoke-c0de-2-1"};
  const Observed suspending = between_attempts().phase(Phase::suspending);
  const std::vector<Row> rows{
      {"nothing is missing", after_a_life(), {}},
      {"a lost service comes back while the group runs",
       after_a_life().with(without_service),
       {"create service", "select pods of attempt 3"}},
      {"the service selects no pods while those of an older attempt go, and this one's once all are there",
       between_attempts({1}).with(selecting_attempt(2)),
       selecting_none_and(older_and({"create pod 1", "select pods of attempt 3"}))},
      {"once it selects none, only the latter is left", between_attempts({1}).with(selecting_attempt(0)),
       older_and({"create pod 1", "select pods of attempt 3"})},
      {"and also if the operator ended in between",
       after_a_life().with(selecting_attempt(2)),
       {"select pods of attempt 3"}},
      {"but not during backoff", between_attempts({1}).with(not_before(later + 3s)).with(selecting_attempt(2)),
       selecting_none_and(older), 3s},
      {"a lost pod does not", after_a_life().missing(1), {}},
      {"what older attempts left goes", between_attempts(), older},
      {"what is missing is made in the ranks' order", between_attempts({0, 1}).with(without_service),
       older_and({"create service", "create pod 0", "create pod 1", "select pods of attempt 3"})},
      {"only what is missing is", between_attempts({1}).waiting(0), older_and({"create pod 1"})},
      {"nothing is made during backoff", between_attempts({1}).with(not_before(later + 3s)), older, 3s},
      {"it is at its end", between_attempts({1}).with(not_before(later)), older_and({"create pod 1"})},
      {"nothing is made soon after a refusal",
       between_attempts({1}).with([](Observed& observed) { observed.refusal = Refusal{.count = 2, .last = later}; }),
       older, 2s},
      {"however little of the backoff is left", between_attempts({1}).with(not_before(later + 1ms)), older, 1ms},
      {"the template is tried before the first attempt", new_job(false), {"check pod"}},
      {"once", new_job(true), {}},
      {"a job that is suspended leaves no pod that runs", between_attempts().phase(Phase::suspended), live},
      {"nor does one that is being suspended, once there is nothing to save",
       ObservedBuilder{}.with([&](Observed& observed) {
         observed = suspending;
         saving(RequestState::failed)(observed);
       }),
       live},
      {"until then its present pods stay", ObservedBuilder{}.with([&](Observed& observed) {
         observed = suspending;
         saving(RequestState::pending)(observed);
       }),
       older, 1s},
      {"until they end after the save too", ObservedBuilder{}.with([&](Observed& observed) {
         observed = suspending;
         saving(RequestState::done)(observed);
       }),
       older, 116s},
      {"a suspended job makes nothing",
       after_a_life().phase(Phase::suspended).missing(0).missing(1).with(without_service),
       {}},
      {"one that never began does not try its template", new_job(false).phase(Phase::suspended), {}},
  };
  for (const Row& row : rows) {
    Draft draft{.status = row.observed.job.status};
    plan_actions(row.observed, members_of(row.observed), later, draft);
    EXPECT_EQ(builders::words_of(draft.actions), row.actions) << row.sentence;
    EXPECT_EQ(draft.requeue_after, row.requeue_after) << row.sentence;
    EXPECT_TRUE(draft.status == row.observed.job.status && draft.events.empty()) << row.sentence;
  }
}

TEST(PlanActions, MakeEachPodAndTheServiceAsTheManifestSaysAndOnNoAvoidedNode) {
  const Observed observed = between_attempts({0, 1}).with(without_service).with([](Observed& changed) {
    changed.job.status.avoided_nodes = {"node-1"};
    changed.nodes.at("node-1").host_name = "host-1";
    changed.settings.image_pull_secrets = {"registry"};
  });
  Draft draft;
  plan_actions(observed, members_of(observed), later, draft);
  ASSERT_EQ(draft.actions.size(), 6U);
  EXPECT_EQ(std::get<CreateService>(draft.actions[2]).service, manifest::build_service(observed.job));
  for (const std::int64_t index : {0, 1}) {
    nlohmann::json expected = manifest::build_pod(observed.job, index, observed.traits, observed.settings);
    manifest::avoid_hosts(expected.at("spec"), {"host-1"});
    EXPECT_EQ(std::get<CreatePod>(draft.actions[static_cast<std::size_t>(index) + 3]).pod(), expected) << index;
  }
}

TEST(PlanActions, TryThePodThatTheFirstAttemptWouldHave) {
  const Observed observed = new_job(false);
  Draft draft;
  plan_actions(observed, {}, later, draft);
  ASSERT_EQ(builders::words_of(draft.actions), Words{"check pod"});
  const nlohmann::json& pod = std::get<CheckPod>(draft.actions[0]).pod;
  EXPECT_EQ(pod.at("metadata").at("name"), "smoke-c0de-1-0");
  EXPECT_EQ(pod.at("spec").at("containers").at(0).at("image"), "trainyard-worker:cpu");
}

}  // namespace
}  // namespace trainyard::plan

#include "tests/simulation/stories.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>

#include "operator/plan/conditions.hpp"
#include "operator/plan/request_status.hpp"
#include "tests/simulation/liar.hpp"

namespace trainyard::simulation {
namespace {

using api::Phase;
using builders::a_job;

void expect_phase(Simulation& simulation, Phase phase) {
  ASSERT_TRUE(simulation.run_until([&] { return simulation.is_phase(phase); }))
      << "still " << to_string(simulation.status().phase) << " (" << simulation.status().reason << ": "
      << simulation.status().message << "), wanted " << to_string(phase);
}

void expect_running(Simulation& simulation, std::int64_t attempt) {
  ASSERT_TRUE(simulation.run_until([&] {
    return simulation.is_phase(Phase::running) && simulation.status().attempt == attempt;
  })) << "still "
      << to_string(simulation.status().phase) << " in attempt " << simulation.status().attempt << ", wanted attempt "
      << attempt;
}

void finish(Simulation& simulation, std::int64_t attempt) {
  simulation.finish(attempt);
  expect_phase(simulation, Phase::succeeded);
  // Remove what is left.
  simulation.pass(std::chrono::seconds{1});
}

void start(Simulation& simulation, const builders::JobBuilder& job) {
  simulation.apply(job.manifest());
  expect_running(simulation, 1);
}

/// A job that can save and has done its first step.
void start_training(Simulation& simulation) {
  start(simulation, a_job().checkpoint());
  simulation.report({.attempt = 1, .step = 12});
  ASSERT_TRUE(
      simulation.run_until([&] { return plan::is_condition_true(simulation.status(), plan::condition_training); }));
}

void resume_and_finish(Simulation& simulation) {
  simulation.edit({{"suspend", false}});
  expect_running(simulation, 2);
  finish(simulation, 2);
}

void delete_until_cleaned_up(Simulation& simulation) {
  simulation.delete_job();
  ASSERT_TRUE(simulation.run_until([&] { return simulation.is_cleaning_up(); }))
      << "still " << simulation.status().message;
}

void expect_gone(Simulation& simulation) {
  ASSERT_TRUE(simulation.run_until([&] { return !simulation.job(); })) << "still " << simulation.status().message;
  simulation.settle();
}

Story loses(std::string name, std::function<void(Simulation&)> loss) {
  return {std::move(name), [loss = std::move(loss)](Simulation& simulation) {
            start(simulation, a_job().replicas(3));
            loss(simulation);
            expect_running(simulation, 2);
            finish(simulation, 2);
          }};
}

}  // namespace

std::vector<Story> all_stories() {
  return {
      {"create and finish",
       [](Simulation& simulation) {
         start(simulation, a_job().replicas(3));
         finish(simulation, 1);
       }},
      loses("restart after a failure", [](Simulation& simulation) { simulation.end(1, 1, 1, "Traceback"); }),
      loses("restart after a deleted pod", [](Simulation& simulation) { simulation.delete_pod(1, 0); }),
      loses("restart after a vanished pod", [](Simulation& simulation) { simulation.vanish(1, 2); }),
      loses("restart after a lost node", [](Simulation& simulation) { simulation.lose_node(1); }),
      loses("restart after lost peers",
            [](Simulation& simulation) {
              simulation.end(1, 0, 90, R"({"exitCode": 90, "reason": "PeerLost", "culprit": 2})");
            }),
      {"suspend and resume",
       [](Simulation& simulation) {
         start(simulation, a_job());
         simulation.edit({{"suspend", true}});
         expect_phase(simulation, Phase::suspended);
         EXPECT_EQ(simulation.live_pods(), std::vector<std::string>{});
         simulation.edit({{"suspend", false}});
         expect_running(simulation, 2);
         finish(simulation, 2);
       }},
      {"suspend with a checkpoint first",
       [](Simulation& simulation) {
         simulation.kubelet.set_stubborn([](const json&) { return true; });
         start_training(simulation);
         simulation.edit({{"suspend", true}});
         expect_phase(simulation, Phase::suspending);
         simulation.report({.attempt = 1, .step = 12, .requests = {api::CheckpointRequest{.id = "suspend-2"}}});
         simulation.pass(std::chrono::seconds{10});
         EXPECT_EQ(simulation.live_pods().size(), 2U) << "the ranks save";
         simulation.end(1, 0, 91, R"({"exitCode": 91, "reason": "Preempted", "progress": {"step": 13,
             "checkpointRequest": {"id": "suspend-2", "state": "Done", "step": 13, "uri": "s3://models/smoke/step-13/g-1"}}})");
         simulation.end(1, 1, 91, R"({"exitCode": 91, "reason": "Preempted"})");
         expect_phase(simulation, Phase::suspended);
         resume_and_finish(simulation);
       }},
      {"suspend ranks that do not answer",
       [](Simulation& simulation) {
         start_training(simulation);
         simulation.edit({{"suspend", true}});
         expect_phase(simulation, Phase::suspended);
         EXPECT_EQ(simulation.live_pods(), std::vector<std::string>{});
         resume_and_finish(simulation);
       }},
      {"ask for a checkpoint",
       [](Simulation& simulation) {
         start_training(simulation);
         simulation.annotate(std::string{plan::checkpoint_request_annotation}, "lunch");
         const auto state_of_request = [&] {
           const auto request = simulation.status().checkpoint_request;
           return request ? to_string(request->state) : "";
         };
         ASSERT_TRUE(simulation.run_until([&] { return state_of_request() == "Pending"; }));
         simulation.report({.attempt = 1,
                            .step = 13,
                            .requests = {api::CheckpointRequest{
                                .id = "lunch", .state = api::RequestState::done, .step = 13, .uri = "s3://m"}}});
         ASSERT_TRUE(simulation.run_until([&] { return state_of_request() == "Done"; }));
         finish(simulation, 1);
       }},
      {"fail for good",
       [](Simulation& simulation) {
         start(simulation, a_job());
         simulation.end(1, 1, 93, R"({"exitCode": 93, "reason": "InvalidData", "message": "no such path: /data/x"})");
         expect_phase(simulation, Phase::failed);
         simulation.pass(std::chrono::seconds{1});
       }},
      {"edit while the group forms",
       [](Simulation& simulation) {
         simulation.kubelet.hold([](const json&) { return true; }, "0/3 nodes are available: no room");
         simulation.apply(a_job().manifest());
         ASSERT_TRUE(simulation.run_until([&] { return simulation.status().reason == "Unschedulable"; }));
         simulation.edit({{"training", {{"batchSize", 7}}}});
         ASSERT_TRUE(simulation.run_until([&] { return simulation.status().attempt == 2; }));
         simulation.kubelet.let_go();
         expect_running(simulation, 2);
         finish(simulation, 2);
       }},
      {"time to live",
       [](Simulation& simulation) {
         start(simulation, a_job().ttl(std::chrono::seconds{30}));
         simulation.finish(1);
         ASSERT_TRUE(simulation.run_until([&] { return !simulation.job(); }));
         simulation.settle();
       }},
      {"delete with its checkpoints",
       [](Simulation& simulation) {
         simulation.kubelet.set_stubborn(
             [&](const json& pod) { return pod.at("metadata").at("name") == simulation.pod_name(1, 0); });
         start(simulation, a_job().on_delete());
         delete_until_cleaned_up(simulation);
         simulation.end_clean_up(0, R"({"reason": "Completed"})");
         expect_gone(simulation);
       }},
      {"delete with its checkpoints at the second try",
       [](Simulation& simulation) {
         start(simulation, a_job().on_delete());
         finish(simulation, 1);
         delete_until_cleaned_up(simulation);
         simulation.end_clean_up(96, R"({"exitCode": 96, "message": "no route to s3"})");
         ASSERT_TRUE(simulation.run_until([&] { return simulation.is_cleaning_up(); }));
         simulation.end_clean_up(0, R"({"reason": "Completed"})");
         expect_gone(simulation);
       }},
      {"delete and leave its checkpoints",
       [](Simulation& simulation) {
         start(simulation, a_job().on_delete());
         delete_until_cleaned_up(simulation);
         simulation.end_clean_up(93, R"({"exitCode": 93, "message": "s3://models/smoke/ also holds another's"})");
         expect_gone(simulation);
       }},
      {"deadline",
       [](Simulation& simulation) {
         start(simulation, a_job().deadline(std::chrono::seconds{60}));
         expect_phase(simulation, Phase::failed);
         simulation.pass(std::chrono::seconds{1});
       }},
  };
}

Outcome outcome_of(Simulation& simulation) {
  Outcome outcome;
  const auto job = simulation.job();
  outcome.pods = simulation.pods();
  outcome.services = simulation.services();
  if (!job) return outcome;
  const api::TrainingJobStatus& status = job->status;
  outcome.phase = status.phase;
  outcome.reason = status.reason;
  outcome.attempt = status.attempt;
  outcome.restart_count = status.restart_count;
  outcome.restarts = status.restarts;
  for (const api::AttemptRecord& record : status.attempts) {
    std::string text = fmt::format("{} {}", record.number, record.cause ? to_string(*record.cause) : "-");
    if (record.rank) text += fmt::format(" rank {}", *record.rank);
    if (record.exit_code) text += fmt::format(" exit {}", *record.exit_code);
    outcome.records.push_back(text);
  }
  for (const api::Condition& condition : status.conditions) {
    if (condition.is_true) outcome.conditions.push_back(condition.type);
  }
  std::ranges::sort(outcome.conditions);
  for (const auto& request : {status.checkpoint_request, status.suspend_request}) {
    if (!request) continue;
    outcome.requests.push_back(
        fmt::format("{} {} {}", request->id, to_string(request->state), request->step.value_or(0)));
  }
  return outcome;
}

void live_with_lies(Simulation& simulation, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  Liar liar{seed};
  const auto tell_lies = [&](std::int64_t attempt) {
    for (int lie = 0; lie < 4; ++lie) {
      simulation.report(liar.report(attempt, simulation.clock.now()));
      simulation.pass(std::chrono::seconds{11});
    }
  };
  start(simulation, a_job().checkpoint());
  simulation.annotate(std::string{plan::checkpoint_request_annotation}, "lunch");
  tell_lies(1);
  simulation.end(1, static_cast<std::int64_t>(random() % 2), 1, liar.termination_message());
  expect_running(simulation, 2);
  tell_lies(2);
  simulation.edit({{"suspend", true}});
  expect_phase(simulation, Phase::suspended);
  simulation.edit({{"suspend", false}});
  expect_running(simulation, 3);
  tell_lies(3);
  for (const std::int64_t rank : {1, 0}) simulation.end(3, rank, 0, liar.termination_message());
  expect_phase(simulation, Phase::succeeded);
  simulation.pass(std::chrono::seconds{10});
}

void PrintTo(const Story& story, std::ostream* stream) {
  *stream << story.name;
}

void expect_sound(Simulation& simulation) {
  EXPECT_EQ(simulation.twins(), std::vector<std::string>{}) << "a pod was made twice in one attempt";
  EXPECT_EQ(simulation.live_pods(), std::vector<std::string>{}) << "a pod was left behind";
  EXPECT_EQ(simulation.foreign_deletes(), std::vector<std::string>{}) << "the operator had not made them";
  EXPECT_EQ(simulation.invalid_statuses(), std::vector<std::string>{}) << "a text or number was not bounded";
  EXPECT_LE(simulation.events().size(), 6U);
  EXPECT_TRUE(simulation.is_at_rest()) << "the plan's actions do not run out";
}

Outcome outcome_undisturbed(const Story& story, std::int64_t* calls) {
  Simulation simulation;
  story.tell(simulation);
  expect_sound(simulation);
  if (calls != nullptr) *calls = simulation.faulty.calls();
  return outcome_of(simulation);
}

std::vector<Undisturbed> play_undisturbed(const std::vector<Story>& stories) {
  std::vector<Undisturbed> played;
  for (const Story& story : stories) {
    Undisturbed& one = played.emplace_back();
    one.outcome = outcome_undisturbed(story, &one.calls);
  }
  return played;
}

void PrintTo(const Outcome& outcome, std::ostream* stream) {
  *stream << fmt::format(
      "{} ({}), attempt {}, {} restarts ({} application, {} infrastructure), records [{}], conditions [{}], "
      "requests [{}], pods [{}], services [{}]",
      to_string(outcome.phase), outcome.reason, outcome.attempt, outcome.restart_count, outcome.restarts.application,
      outcome.restarts.infrastructure, fmt::join(outcome.records, "; "), fmt::join(outcome.conditions, ", "),
      fmt::join(outcome.requests, ", "), fmt::join(outcome.pods, ", "), fmt::join(outcome.services, ", "));
}

}  // namespace trainyard::simulation

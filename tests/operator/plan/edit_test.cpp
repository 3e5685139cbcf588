#include "operator/plan/decide.hpp"

#include <gtest/gtest.h>

#include "operator/plan/conditions.hpp"
#include "tests/operator/plan/decision_case.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using api::Phase;
using api::TrainingJobStatus;
using builders::a_job;
using builders::ObservedBuilder;
using builders::start;
using Edit = void (*)(api::TrainingJobSpec&);

const std::string edit_words = "the spec was changed while the group formed";

void reaches_pods(api::TrainingJobSpec& spec) {
  spec.training->max_steps = 300;
}
void reaches_no_pod(api::TrainingJobSpec& spec) {
  spec.restart.application.max = 9;
}
void asks_for_gpus(api::TrainingJobSpec& spec) {
  spec.replicas = 3;
  spec.gpus_per_pod = 1;
}
void brings_a_container(api::TrainingJobSpec& spec) {
  spec.pod_template = a_job().container().build().spec.pod_template;
}

/// The user has made generation 5 of the job by `edit`, when its pods were there.
ObservedBuilder edited(const ObservedBuilder& observed, Edit edit) {
  return ObservedBuilder{observed}.with([&](Observed& changed) {
    edit(changed.job.spec);
    changed.job.metadata.generation = 5;
    changed.job.status.observed_generation = 5;
  });
}

ObservedBuilder running() {
  return after_a_life();
}
ObservedBuilder forming(Phase phase = Phase::starting) {
  return after_a_life().unformed().phase(phase);
}
ObservedBuilder without_pods() {
  return forming().missing(0).missing(1);
}

/// A pod of the attempt before, made from another spec.
void add_older_pod(Observed& observed) {
  observed.pods.push_back(builders::a_pod(observed.job, 2, 1));
  observed.pods.back().metadata.annotations.clear();
}

DecisionCase::Change forms_anew(Phase phase) {
  return [=](TrainingJobStatus& status) {
    expect_attempt_ended(status, Cause::spec_changed, edit_words);
    expect_next_attempt(status, 4);
    expect_phase(status, phase);
  };
}

void is_bound_to_it(TrainingJobStatus& status) {
  status.attempt_generation = 5;
  expect_condition(status, condition_spec_pending, false, "Reverted");
}

DecisionCase::Change takes_it(std::int64_t replicas, const std::string& worker_image) {
  return [=](TrainingJobStatus& status) {
    is_bound_to_it(status);
    status.replicas = {.desired = replicas, .pending = replicas};
    status.worker_image = worker_image;
  };
}

TEST(DecideEdit, AnswersAnEditAsFarAsTheGroupHasCome) {
  const auto waits = [](TrainingJobStatus& status) {
    expect_condition(status, condition_spec_pending, true, "AttemptRuns",
                     "the spec was changed: the change takes effect with the next attempt", start);
  };
  const std::vector<DecisionCase> rows{
      {"there was no edit", running(), false},
      {"nor is a spec that older operators wrote otherwise an edit",
       forming().with([](Observed& observed) { observed.job.spec.training->max_steps = 300; }), false},
      {"the change waits while the group runs", edited(running(), reaches_pods), false, waits},
      {"since now, where none waited before", edited(running(), reaches_pods).with([](Observed& observed) {
         std::erase_if(observed.job.status.conditions,
                       [](const auto& condition) { return condition.type == condition_spec_pending; });
       }),
       false,
       [](TrainingJobStatus& status) {
         expect_condition(status, condition_spec_pending, true, "AttemptRuns",
                          "the spec was changed: the change takes effect with the next attempt");
       }},
      {"what reaches no pod holds at once", edited(running(), reaches_no_pod), false, is_bound_to_it},
      {"so it does while the group forms", edited(forming(), reaches_no_pod), false, is_bound_to_it},
      {"whatever the pods of an earlier attempt were made from", edited(running().with(add_older_pod), reaches_no_pod),
       false, is_bound_to_it},
      {"a group that forms begins again", edited(forming(), reaches_pods), true, forms_anew(Phase::starting)},
      {"so does one of which a pod is still to be made", edited(forming().missing(0), reaches_pods), true,
       forms_anew(Phase::starting)},
      {"so does one that waits for room", edited(forming(Phase::pending), reaches_pods), true,
       forms_anew(Phase::starting)},
      {"after a lost rank it is still a restart, and its backoff stays",
       edited(forming(Phase::restarting), reaches_pods), true, forms_anew(Phase::restarting)},
      {"one pod that was made before the edit is enough", edited(forming(), reaches_pods).with([](Observed& observed) {
         observed.pods.at(0).metadata.annotations = builders::a_pod(observed.job, 3, 0).metadata.annotations;
       }),
       true, forms_anew(Phase::starting)},
      {"whichever it is", edited(forming(), reaches_pods).with([](Observed& observed) {
         observed.pods.at(1).metadata.annotations = builders::a_pod(observed.job, 3, 1).metadata.annotations;
       }),
       true, forms_anew(Phase::starting)},
      {"an attempt without pods takes the new spec", edited(without_pods(), asks_for_gpus), true,
       takes_it(3, "trainyard-worker:cuda")},
      {"whatever an earlier attempt left", edited(without_pods().with(add_older_pod), reaches_pods), true,
       takes_it(2, "trainyard-worker:cpu")},
      {"it names no image of ours where the user brings one", edited(without_pods(), brings_a_container), true,
       takes_it(2, "")},
      {"a group whose pods are all gone was made of the old spec",
       edited(running().missing(0).missing(1), asks_for_gpus), false, is_bound_to_it},
      {"a suspended job takes it when it resumes", edited(running().phase(Phase::suspended), reaches_pods), false},
      {"and a job without an attempt with its first",
       edited(ObservedBuilder{}.phase(Phase::pending).with([](Observed& observed) { observed.job.status.attempt = 0; }),
              reaches_pods),
       false},
  };
  for (const DecisionCase& row : rows) {
    expect_decision(row, [](const Observed& observed, const std::vector<Member>&, Time now, Draft& draft) {
      return decide_edit(observed, now, draft);
    });
  }
}

}  // namespace
}  // namespace trainyard::plan

#include "operator/plan/phase.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "operator/plan/conditions.hpp"
#include "tests/operator/plan/decision_case.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using api::Phase;
using api::TrainingJobStatus;
using builders::a_job;
using builders::later;
using builders::ObservedBuilder;
using builders::start;
using namespace std::chrono_literals;

const std::string taken = "pods \"smoke-c0de-3-1\" already exists";
const std::string quota = "pods is forbidden: exceeded quota: small";
const std::string deleted_words = "pod 1 is being deleted; the group may save a checkpoint first";

/// The third attempt after one that ended as after_a_life() says.
ObservedBuilder group_that_forms() {
  return after_a_life().unformed();
}

ObservedBuilder group_that_runs() {
  return after_a_life().with([](Observed& observed) { observed.job.status.message.clear(); });
}

auto refused_with(ErrorKind kind, const std::string& message) {
  return [=](Observed& observed) { observed.refusal = Refusal{.kind = kind, .message = message}; };
}
auto failing_since(Time since) {
  return [=](Observed& observed) { observed.create_failure = CreateFailure{.message = "HTTP 500", .since = since}; };
}
auto restarted_after(std::optional<Cause> cause) {
  return [=](Observed& observed) {
    observed.job.status.attempts.front().cause = cause;
    observed.job.status.attempts.front().message = "as it ended";
  };
}
auto waiting_for(const std::string& what, std::int64_t attempt, bool is_training) {
  return [=](Observed& observed) {
    observed.progress = ProgressReport{.attempt = attempt, .waiting_for = what};
    expect_condition(observed.job.status, condition_training, is_training, "Before", "", start);
  };
}

DecisionCase::Change phase_is(Phase phase, const std::string& reason = {}, const std::string& message = {},
                              bool is_formed = true) {
  return [=](TrainingJobStatus& status) {
    expect_phase(status, phase, reason, message);
    status.is_formed = is_formed;
  };
}
DecisionCase::Change runs(const std::string& message = {}) {
  return [=](TrainingJobStatus& status) {
    phase_is(Phase::running, "", message)(status);
    status.restart_not_before.reset();
  };
}

std::vector<Event> told_pending(const std::string& reason, const std::string& message) {
  return {{.reason = "Pending", .is_warning = true, .note = fmt::format("{}: {}", reason, message)}};
}
const std::vector<Event> told_running{{.reason = "Running", .note = "all 2 pods run (attempt 3)"}};

/// Each row's status is refreshed twice: nothing is news the second time.
void expect_refreshed(const DecisionCase& row) {
  expect_decision(row, [](const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
    update_phase(observed, members, now, draft);
    Draft again{.status = draft.status};
    update_phase(observed, members, now, again);
    EXPECT_TRUE(again.status == draft.status && again.events.empty());
    return false;
  });
}

TEST(UpdatePhase, SaysHowFarTheGroupHasCome) {
  const std::string no_room = "pod 1: no room";
  const std::vector<DecisionCase> rows{
      {"a pod is still to be made, after a lost rank", group_that_forms().waiting(0, "").missing(1), false,
       phase_is(Phase::restarting, "Application", "", false)},
      {"a group that was complete once stays formed", after_a_life().phase(Phase::restarting).waiting(0, "").missing(1),
       false, phase_is(Phase::restarting, "Application", "")},
      {"all are there and start, after a lost rank",
       group_that_forms().waiting(0, "").with(restarted_after(Cause::deleted)), false,
       phase_is(Phase::restarting, "Deleted", "as it ended")},
      {"nobody is to blame for a suspension", group_that_forms().waiting(0, "").with(restarted_after(Cause::suspended)),
       false, phase_is(Phase::starting)},
      {"nor for an edit", group_that_forms().waiting(0, "").with(restarted_after(Cause::spec_changed)), false,
       phase_is(Phase::starting)},
      {"nor for an end without a cause", group_that_forms().waiting(0, "").with(restarted_after({})), false,
       phase_is(Phase::starting)},
      {"nor in a first attempt", group_that_forms().waiting(0, "").with([](Observed& observed) {
         observed.job.status.attempts.erase(observed.job.status.attempts.begin());
       }),
       false, phase_is(Phase::starting)},
      {"all run", group_that_forms(), false, runs(), told_running},
      {"all run or have ended with 0", group_that_forms().ended(0, 0), false, runs(), told_running},
      {"those that run are not all", group_that_forms().missing(1), false,
       phase_is(Phase::restarting, "Application", "", false)},
      {"a group that has run does so until it ends", group_that_runs().ended(1, 90), false, runs()},
      {"whatever becomes of a pod", group_that_runs().unscheduled(1, "no room"), false, runs()},
      {"one has no room", group_that_forms().unscheduled(1, "no room"), false,
       phase_is(Phase::pending, "Unschedulable", no_room), told_pending("Unschedulable", no_room)},
      {"it has been told so", group_that_forms().unscheduled(1, "no room").phase(Phase::pending, "Unschedulable"),
       false, phase_is(Phase::pending, "Unschedulable", no_room)},
      {"it had not found its image before",
       group_that_forms().unscheduled(1, "no room").phase(Phase::pending, "ImagePull"), false,
       phase_is(Phase::pending, "Unschedulable", no_room), told_pending("Unschedulable", no_room)},
      {.sentence = "a container is made, which may take half a minute",
       .observed = group_that_forms().waiting(1),
       .change = phase_is(Phase::restarting, "Application"),
       .requeue_after = 20s},
  };
  for (const DecisionCase& row : rows) expect_refreshed(row);
}

TEST(UpdatePhase, SaysWhatTheApiServerDoesNotMake) {
  const auto name_is_taken = [](bool is_taken, std::string reason, const std::string& message) {
    return [=](TrainingJobStatus& status) {
      expect_condition(status, condition_name_conflict, is_taken, reason, message);
    };
  };
  const auto pending = [](const std::string& reason, const std::string& message) {
    return phase_is(Phase::pending, reason, message, false);
  };
  const auto group = [] { return group_that_forms().missing(1); };
  const auto with_conflict = [](ObservedBuilder observed) {
    return observed.with([](Observed& changed) {
      expect_condition(changed.job.status, condition_name_conflict, true, "NameTaken", taken, start);
    });
  };
  const std::string long_message(2'000, 'x');
  const std::string cut = "... " + std::string(1'020, 'x');
  const std::vector<DecisionCase> rows{
      {"a quota has no room", group().with(refused_with(ErrorKind::forbidden, quota)), false,
       pending("QuotaExceeded", quota), told_pending("QuotaExceeded", quota)},
      {"a rule does not let it in, in more words than a status holds",
       group().with(refused_with(ErrorKind::forbidden, long_message)), false, pending("AdmissionRefused", cut),
       told_pending("AdmissionRefused", cut)},
      {"which says more than an earlier pod's wait",
       group().unscheduled(0, "no room").with(refused_with(ErrorKind::forbidden, quota)), false,
       pending("QuotaExceeded", quota), told_pending("QuotaExceeded", quota)},
      {"another's object has the name", group().with(refused_with(ErrorKind::already_exists, taken)), false,
       [=](TrainingJobStatus& status) {
         name_is_taken(true, "NameTaken", taken)(status);
         pending("NameConflict", taken)(status);
       },
       told_pending("NameConflict", taken)},
      {"the name is free again", with_conflict(group()), false,
       [=](TrainingJobStatus& status) {
         name_is_taken(false, "NameFree", "")(status);
         phase_is(Phase::restarting, "Application", "", false)(status);
       }},
      {"or something else is wrong by now", with_conflict(group()).with(refused_with(ErrorKind::forbidden, quota)),
       false,
       [=](TrainingJobStatus& status) {
         name_is_taken(false, "NameFree", "")(status);
         pending("QuotaExceeded", quota)(status);
       },
       told_pending("QuotaExceeded", quota)},
      {"it has failed for five seconds", group().with(failing_since(later - 5s)), false,
       pending("ApiUnavailable", "HTTP 500"), told_pending("ApiUnavailable", "HTTP 500")},
      {"it has failed for less", group().with(failing_since(later - 4999ms)), false,
       phase_is(Phase::restarting, "Application", "", false)},
      {"a refused template is decided about elsewhere", group().with(refused_with(ErrorKind::invalid, "wrong")), false,
       phase_is(Phase::restarting, "Application", "", false)},
      {"a group that runs needs none of it", group_that_runs().with(refused_with(ErrorKind::forbidden, quota)), false,
       runs()},
  };
  for (const DecisionCase& row : rows) expect_refreshed(row);
}

TEST(UpdatePhase, SaysWhyAGroupThatRunsDoesNotTrain) {
  const std::vector<DecisionCase> rows{
      {"it trains, and an old reason is no reason any more", group_that_runs().phase(Phase::running, "Unschedulable"),
       false, runs()},
      {"a pod of it goes", group_that_runs().leaving(1), false, runs(deleted_words)},
      {"which says more than its wait", group_that_runs().leaving(1).with(waiting_for("its data", 3, false)), false,
       runs(deleted_words)},
      {"one that has ended may go", group_that_runs().ended(1, 0).leaving(1), false, runs()},
      {"rank 0 says what it waits for", group_that_runs().with(waiting_for("its data", 3, false)), false,
       runs("its data")},
      {"in no more words than a status holds", group_that_runs().with(waiting_for(std::string(2'000, 'x'), 3, false)),
       false, runs("... " + std::string(1'020, 'x'))},
      {"it has waited before it trained", group_that_runs().with(waiting_for("its data", 3, true)), false, runs()},
      {"another attempt's rank 0 has", group_that_runs().with(waiting_for("its data", 2, false)), false, runs()},
  };
  for (const DecisionCase& row : rows) expect_refreshed(row);
}

TEST(UpdatePhase, ShowsAJobWithoutAnAttemptOrWithoutPods) {
  const auto new_job = [] {
    return ObservedBuilder{}.with([](Observed& observed) {
      observed = builders::first_sight(a_job().replicas(3));
      expect_phase(observed.job.status, Phase::pending, "QuotaExceeded", quota);
    });
  };
  const auto counted = [](TrainingJobStatus& status) {
    status.replicas = {.desired = 3, .pending = 3};
    status.ready = "0/3";
  };
  const auto one_of_two = [](Observed& observed) {
    observed.job.status.replicas = {.desired = 2, .ready = 1, .pending = 1};
  };
  const auto counts_one = [](TrainingJobStatus& status) { status.ready = "1/2"; };
  const std::vector<DecisionCase> rows{
      {"its start is when it is first seen", new_job(), false,
       [=](TrainingJobStatus& status) {
         counted(status);
         status.start_time = later;
         expect_phase(status, Phase::pending);
       }},
      {"its start stays", new_job().with([](Observed& observed) { observed.job.status.start_time = start; }), false,
       [=](TrainingJobStatus& status) {
         counted(status);
         expect_phase(status, Phase::pending);
       }},
      {"what it waits for stays, and is no news", new_job().with(refused_with(ErrorKind::forbidden, quota)), false,
       [=](TrainingJobStatus& status) {
         counted(status);
         status.start_time = later;
       }},
      {"a suspended one has no start", new_job().phase(Phase::suspended, "Suspended"), false, counted},
      {"a job that is being suspended only has its pods counted",
       group_that_forms()
           .phase(Phase::suspending, "Suspended")
           .with(one_of_two)
           .with(refused_with(ErrorKind::already_exists, taken)),
       false, counts_one},
      {"so does a suspended one", group_that_forms().phase(Phase::suspended, "Suspended").with(one_of_two), false,
       counts_one},
      {"the pods of an attempt are counted before", group_that_runs().with(one_of_two), false,
       [=](TrainingJobStatus& status) {
         counts_one(status);
         runs()(status);
       }},
  };
  for (const DecisionCase& row : rows) expect_refreshed(row);
}

TEST(CountMembers, CountsEachMemberOnce) {
  struct Row {
    std::string sentence;
    Observed observed;
    api::ReplicaCounts counts;
  };
  const builders::JobBuilder job = a_job().replicas(5);
  const std::vector<Row> rows{
      {"all run", builders::an_observed(job), {.desired = 5, .ready = 5}},
      {"all differ",
       builders::an_observed(job).missing(0).waiting(1).ended(2, 0).ended(3, 1),
       {.desired = 5, .ready = 1, .pending = 2, .succeeded = 1, .failed = 1}},
  };
  for (const Row& row : rows) {
    TrainingJobStatus expected = row.observed.job.status;
    expected.replicas = {.desired = 5, .ready = 9, .pending = 9, .succeeded = 9, .failed = 9};
    TrainingJobStatus status = expected;
    count_members(members_of(row.observed), status);
    expected.replicas = row.counts;
    EXPECT_TRUE(status == expected) << row.sentence << ": " << api::to_json(status);
  }
}

}  // namespace
}  // namespace trainyard::plan

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "operator/plan/conditions.hpp"
#include "operator/plan/restart.hpp"
#include "tests/builders/a_job.hpp"
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

struct BudgetCase {
  std::string sentence;
  Cause cause;
  std::int64_t application, infrastructure, without_progress;  // before
  bool makes_checkpoints;
  std::string failed_reason;
  std::chrono::seconds wait;  // without the jitter
};

TEST(DecideRestart, ChargesTheBudgetOfTheCauseAndWaitsLongerEachTime) {
  const std::vector<BudgetCase> cases{
      {"the first lost pod is answered at once", Cause::deleted, 0, 0, 0, false, "", 0s},
      {"the second waits", Cause::infrastructure, 0, 1, 0, false, "", 5s},
      {"the third twice as long", Cause::infrastructure, 0, 2, 0, false, "", 10s},
      {"and so on", Cause::infrastructure, 0, 9, 0, false, "", 300s},
      {"up to its budget", Cause::infrastructure, 0, 10, 0, false, "InfrastructureBudget", 0s},
      {"an application's failure waits at once", Cause::application, 0, 0, 0, false, "", 5s},
      {"and longer", Cause::application, 2, 0, 2, false, "", 20s},
      {"up to its own budget", Cause::application, 3, 0, 3, false, "ApplicationBudget", 0s},
      {"a spent budget of one cause does not hinder another", Cause::deleted, 3, 0, 0, false, "", 0s},
      {"three failures without a new checkpoint are enough", Cause::application, 2, 0, 2, true, "NoProgress", 0s},
      {"but not where a checkpoint came between", Cause::application, 2, 0, 1, true, "", 10s},
      {"and losses of pods never count as such", Cause::deleted, 2, 0, 2, true, "", 10s},
      {"even after as many failures as would end the job", Cause::deleted, 2, 0, 3, true, "", 20s},
  };
  for (const BudgetCase& c : cases) {
    api::TrainingJob job = c.makes_checkpoints ? a_job().checkpoint() : a_job();
    job.status.attempt = 3;
    job.status.restarts = {.application = c.application, .infrastructure = c.infrastructure};
    job.status.attempts_without_progress = c.without_progress;
    const RestartDecision decision = decide_restart(job, {.cause = c.cause, .message = "it ended"});
    EXPECT_EQ(decision.failed_reason, c.failed_reason) << c.sentence;
    EXPECT_GE(decision.wait, c.wait * 8 / 10) << c.sentence;
    EXPECT_LE(decision.wait, c.wait * 12 / 10) << c.sentence;
    const std::int64_t charge = c.failed_reason.empty() ? 1 : 0;
    const bool is_application = c.cause == Cause::application;
    EXPECT_EQ(decision.restarts.application, c.application + (is_application ? charge : 0)) << c.sentence;
    EXPECT_EQ(decision.restarts.infrastructure, c.infrastructure + (is_application ? 0 : charge)) << c.sentence;
  }
}

TEST(DecideRestart, StopsAtOnceWhenTheWorkerSaysThatARestartCannotHelp) {
  const RestartDecision decision = decide_restart(
      a_job(), {.cause = Cause::application, .is_final = true, .message = "exit code 93 (InvalidData): no such path"});
  EXPECT_EQ(decision.failed_reason, "DoNotRestart");
  EXPECT_EQ(
      decision.failed_message,
      "exit code 93 (InvalidData): no such path; not restarted, since the worker says that a restart cannot help");
}

TEST(DecideRestart, SaysThatNoRestartIsAllowedWhereTheBudgetIsNone) {
  api::TrainingJob job = a_job();
  job.spec.restart.application.max = 0;
  const RestartDecision decision = decide_restart(job, {.cause = Cause::application, .message = "exit code 3"});
  EXPECT_EQ(decision.failed_reason, "ApplicationBudget");
  EXPECT_EQ(decision.failed_message,
            "exit code 3; no restart for failures of the application is allowed (spec.restart.application.max: 0)");
}

TEST(DecideRestart, GoesByTheNumbersOfTheSpec) {
  struct Row {
    std::string sentence;
    Cause cause;
    std::int64_t application, infrastructure, without_progress;  // before
    std::string failed_message;
    std::chrono::milliseconds wait;  // without the jitter
  };
  const std::vector<Row> rows{
      {"the last restart for the application", Cause::application, 5, 0, 0, "", 1s},
      {"one more", Cause::application, 6, 0, 0,
       "it ended; all 6 restarts for failures of the application are used up (spec.restart.application.max)", 0s},
      {"the last restart for lost pods", Cause::deleted, 0, 1, 0, "", 1s},
      {"one more", Cause::infrastructure, 0, 2, 0,
       "it ended; all 2 restarts for lost pods and nodes since the last checkpoint are used up "
       "(spec.restart.infrastructure.max)",
       0s},
      {"the last attempt without progress", Cause::application, 0, 0, 3, "", 4s},
      {"one more", Cause::application, 0, 0, 4,
       "it ended; 5 attempts in a row failed by themselves without a new checkpoint (spec.restart.noProgressAttempts)",
       0s},
      {"the wait grows no longer than the spec allows", Cause::application, 0, 1, 3, "", 4s},
  };
  for (const Row& row : rows) {
    api::TrainingJob job = a_job().checkpoint();
    job.spec.restart = {
        .application = {6}, .infrastructure = {2}, .backoff = {.initial = 1s, .max = 4s}, .no_progress_attempts = 5};
    job.status.attempt = 3;
    job.status.restarts = {.application = row.application, .infrastructure = row.infrastructure};
    job.status.attempts_without_progress = row.without_progress;
    const RestartDecision decision = decide_restart(job, {.cause = row.cause, .message = "it ended"});
    EXPECT_EQ(decision.failed_message, row.failed_message) << row.sentence;
    EXPECT_GE(decision.wait, row.wait * 8 / 10) << row.sentence;
    EXPECT_LE(decision.wait, row.wait * 12 / 10) << row.sentence;
  }
}

TEST(DecideRestart, ChargesNothingForWhatIsNobodysFault) {
  api::TrainingJob job = a_job();
  job.status.restarts = {.application = 3, .infrastructure = 10};
  const RestartDecision decision = decide_restart(job, {.cause = Cause::infrastructure, .is_charged = false});
  EXPECT_EQ(decision.failed_reason, "");
  EXPECT_EQ(decision.restarts, job.status.restarts);

  api::TrainingJob saving = a_job().checkpoint();
  saving.status.attempts_without_progress = 3;
  const RestartDecision spared = decide_restart(saving, {.cause = Cause::application, .is_charged = false});
  EXPECT_EQ(spared.failed_reason, "");
  EXPECT_EQ(spared.attempts_without_progress, 3);
}

TEST(DecideRestart, SpreadsJobsThatAreLostTogetherAndRepeatsItselfForOne) {
  const auto wait = [](const char* uid) {
    api::TrainingJob job = a_job().uid(uid);
    job.status.restarts.infrastructure = 1;
    return decide_restart(job, {.cause = Cause::deleted}).wait;
  };
  EXPECT_EQ(wait("aaaa"), wait("aaaa"));
  EXPECT_NE(wait("aaaa"), wait("bbbb"));
}

/// The expected end of attempt 3's record. The culprit is rank 1.
struct Told {
  Cause cause = Cause::application;
  std::optional<int> exit_code;
  std::string message;
  bool has_pod = true;
};

void expect_loss_reported(TrainingJobStatus& status, const Told& told) {
  expect_attempt_ended(status, told.cause, told.message);
  api::AttemptRecord& record = status.attempts.back();
  record.rank = 1;
  record.exit_code = told.exit_code;
  if (!told.has_pod) return;
  record.pod = "smoke-c0de-3-1";
  record.node = "node-1";
}

/// The next attempt begins, and waits for as long as decide_restart() says.
DecisionCase::Change restarts(const Told& told, api::RestartCounts charged, std::int64_t without_progress,
                              std::int64_t restart_count, std::vector<std::string> avoided_nodes) {
  return [=](TrainingJobStatus& status) {
    api::TrainingJob job = a_job().checkpoint();
    job.status = status;
    status.restart_not_before =
        later + decide_restart(job, {.cause = told.cause, .is_charged = restart_count > 2}).wait;
    expect_loss_reported(status, told);
    expect_next_attempt(status, 4);
    expect_phase(status, Phase::restarting, std::string{to_string(told.cause)}, told.message);
    status.restarts = charged;
    status.attempts_without_progress = without_progress;
    status.restart_count = restart_count;
    status.avoided_nodes = avoided_nodes;
  };
}

std::vector<Event> told_restart(const Told& told) {
  return {{.reason = "Restarting",
           .is_warning = true,
           .note = fmt::format("attempt 4 begins because pod 1 was lost ({}): {}", to_string(told.cause), told.message),
           .count = 3}};
}

DecisionCase::Change fails(const Told& told, const std::string& reason, const std::string& message,
                           std::int64_t without_progress) {
  return [=](TrainingJobStatus& status) {
    expect_loss_reported(status, told);
    expect_phase(status, Phase::failed, reason, message);
    expect_over(status, "JobEnded");
    expect_condition(status, condition_failed, true, reason, message);
    status.completion_time = later;
    status.attempts_without_progress = without_progress;
  };
}

std::vector<Event> told_failure(const std::string& reason, const std::string& message) {
  return {{.reason = "Failed", .is_warning = true, .note = fmt::format("{}: {}", reason, message)}};
}

DecisionCase row_of_failure(std::string sentence, const Observed& observed, const Told& told, const std::string& reason,
                            const std::string& why, std::int64_t without_progress) {
  const std::string message = fmt::format("{}; {}", told.message, why);
  return {std::move(sentence), observed, true, fails(told, reason, message, without_progress),
          told_failure(reason, message)};
}

DecisionCase row_of_restart(std::string sentence, const Observed& observed, const Told& told,
                            api::RestartCounts charged, std::int64_t without_progress,
                            std::vector<std::string> avoided_nodes = {"node-9"}) {
  return {std::move(sentence), observed, true, restarts(told, charged, without_progress, 3, std::move(avoided_nodes)),
          told_restart(told)};
}

TEST(DecideLostRank, LeavesAGroupAloneThat) {
  const std::string peer_lost = R"({"reason": "PeerLost", "exitCode": 90})";
  const std::vector<DecisionCase> rows{
      {"runs", after_a_life(), false},
      {"has ended in part", after_a_life().ended(1, 0), false},
      {"lost a member while it is suspended", after_a_life().ended(1, 1).phase(Phase::suspending), false},
      {.sentence = "waits for a better witness, and looks again when none has come",
       .observed = after_a_life().ended(0, 90, peer_lost),
       .requeue_after = 2500ms,
       .now = start + 500ms},
      {.sentence = "saves what a deleted pod would lose",
       .observed = after_a_life().leaving(1, start + 120s),
       .requeue_after = 112s},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide_lost_rank);
}

TEST(DecideLostRank, BeginsTheNextAttemptAndChargesItsCause) {
  const Told boom{.exit_code = 1, .message = "exit code 1: boom"};
  const Told unreachable{.cause = Cause::infrastructure, .message = "node node-1 is unreachable"};
  const Told gone{.cause = Cause::deleted, .message = "the pod is gone; how it ended was not seen", .has_pod = false};
  const Told too_long{.exit_code = 1, .message = "... " + std::string(1'020, 'x')};
  const Told no_room{.cause = Cause::infrastructure, .exit_code = 94, .message = "exit code 94"};
  DecisionCase vanished = row_of_restart("a pod that is gone is read once more before that is believed",
                                         after_a_life().missing(1), gone, {1, 2}, 1);
  vanished.pods_believed_gone = {"smoke-c0de-3-1"};
  const std::vector<DecisionCase> rows{
      row_of_restart("a failure of the application", after_a_life().ended(1, 1, "boom"), boom, {2, 1}, 2),
      row_of_restart("a lost node is avoided beside those that are", after_a_life().on_lost_node(1), unreachable,
                     {1, 2}, 1, {"node-1", "node-9"}),
      row_of_restart("one that is back is not avoided any more",
                     after_a_life().ended(1, 1, "boom").with([](Observed& observed) {
                       observed.nodes["node-9"] = {.metadata = {.name = "node-9"}, .is_ready = true};
                     }),
                     boom, {2, 1}, 2, {}),
      vanished,
      row_of_restart("no text is longer than a status holds", after_a_life().ended(1, 1, std::string(2'000, 'x')),
                     too_long, {2, 1}, 2),
      {"ranks that gave up on one for which there was no room are charged for nothing",
       after_a_life().ended(1, 94).unscheduled(0, "no room"),
       true,
       restarts(no_room, {1, 1}, 1, 2, {"node-9"}),
       {{.reason = "Pending",
         .is_warning = true,
         .note = "there was no room for the whole group yet, attempt 4 waits for it: exit code 94"}}},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide_lost_rank);
}

TEST(DecideLostRank, FailsTheJobWhereARestartCannotHelpOrIsNotAllowed) {
  const Told final_word{.exit_code = 93, .message = "exit code 93: no such data"};
  const Told boom{.exit_code = 1, .message = "exit code 1: boom"};
  const Told gone{.cause = Cause::deleted, .message = "the pod is gone; how it ended was not seen", .has_pod = false};
  const auto spent = [](ObservedBuilder observed, api::RestartCounts restarts) {
    return observed.with([&](Observed& changed) { changed.job.status.restarts = restarts; });
  };
  DecisionCase vanished =
      row_of_failure("the budget of the infrastructure is used up", spent(after_a_life().missing(1), {1, 10}), gone,
                     "InfrastructureBudget",
                     "all 10 restarts for lost pods and nodes since the last checkpoint are used up "
                     "(spec.restart.infrastructure.max)",
                     1);
  vanished.pods_believed_gone = {"smoke-c0de-3-1"};
  const std::vector<DecisionCase> rows{
      row_of_failure("the worker says so", after_a_life().ended(1, 93, "no such data"), final_word, "DoNotRestart",
                     "not restarted, since the worker says that a restart cannot help", 2),
      row_of_failure("the budget of the application is used up", spent(after_a_life().ended(1, 1, "boom"), {3, 1}),
                     boom, "ApplicationBudget",
                     "all 3 restarts for failures of the application are used up (spec.restart.application.max)", 2),
      row_of_failure("no checkpoint has come for too long",
                     after_a_life().ended(1, 1, "boom").with([](Observed& observed) {
                       observed.job.status.attempts_without_progress = 2;
                     }),
                     boom, "NoProgress",
                     "3 attempts in a row failed by themselves without a new checkpoint "
                     "(spec.restart.noProgressAttempts)",
                     3),
      vanished,
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide_lost_rank);
}

TEST(DecideLostRank, ChargesTheBudgetsThatAReportHasJustGivenBack) {
  const Told boom{.exit_code = 1, .message = "exit code 1: boom"};
  const Observed observed = after_a_life().ended(1, 1, "boom").with([](Observed& changed) {
    changed.job.status.attempts_without_progress = 2;
    changed.job.status.restarts.infrastructure = 7;
  });
  const auto give_back = [](TrainingJobStatus& status) {
    status.attempts_without_progress = 0;
    status.restarts.infrastructure = 0;
  };
  const auto change = [&](TrainingJobStatus& status) {
    give_back(status);
    restarts(boom, {2, 0}, 1, 3, {"node-9"})(status);
  };
  expect_decision({"a checkpoint came with the lost rank", observed, true, change, told_restart(boom)},
                  [&](const Observed& seen, const std::vector<Member>& members, Time now, Draft& draft) {
                    give_back(draft.status);
                    return decide_lost_rank(seen, members, now, draft);
                  });
}

}  // namespace
}  // namespace trainyard::plan

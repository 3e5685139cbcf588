#include "operator/plan/restart_budget.hpp"

#include <gtest/gtest.h>

#include "tests/builders/a_job.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using builders::a_job;
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

}  // namespace
}  // namespace trainyard::plan

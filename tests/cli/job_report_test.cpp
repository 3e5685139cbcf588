#include "cli/status.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace trainyard::cli {
namespace {

using namespace std::chrono_literals;
using api::Cause;
using api::Phase;

const Time begun_at{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
const Time looked_at = begun_at + 130s;

/// A run that trains in its second attempt.
LocalRun a_run() {
  api::TrainingJobStatus status;
  status.phase = Phase::running;
  status.attempt = 2;
  status.restart_count = 1;
  status.restarts.application = 1;
  status.ready = "2/2";
  status.progress = {.epoch = 1, .step = 40, .total_steps = 400, .loss = 0.5, .estimated_end = looked_at + 60s};
  status.checkpoint = {.step = 30, .uri = "file:///runs/job/checkpoints/step-30/g-2", .time = looked_at - 8s};
  status.attempts = {{.number = 1,
                      .start = begun_at,
                      .end = begun_at + 60s,
                      .cause = Cause::application,
                      .rank = 1,
                      .exit_code = 7,
                      .message = "exit code 7: no\nluck\x1b[2J"},
                     {.number = 2, .start = begun_at + 61s}};
  return {.name = "job",
          .folder = "/runs/job",
          .logs = "/runs/job/logs/20260101T000000.000",
          .start = begun_at,
          .is_in_progress = true,
          .status = status};
}

TEST(JobsTable, HasALineForEachJob) {
  LocalRun gone = a_run();
  gone.name = "gone";
  gone.is_in_progress = false;
  const LocalRun new_run{.name = "new", .start = {}, .is_in_progress = true, .status = {}};
  EXPECT_EQ(jobs_table(std::vector{report_of(a_run()), report_of(gone), report_of(new_run)}, looked_at),
            "NAME   PHASE         ATTEMPT     STEP     AGE\n"
            "job    Running             2   40/400   2m10s\n"
            "gone   Interrupted         2   40/400   2m10s\n"
            "new    Pending             -        -       -\n");
}

TEST(JobText, SaysHowFarARunIsAndHowItsAttemptsEnded) {
  EXPECT_EQ(job_text(report_of(a_run()), looked_at),
            "Name          job\n"
            "Folder        /runs/job\n"
            "Phase         Running\n"
            "Started       2026-01-01T00:00:00Z (2m10s ago)\n"
            "Attempt       2\n"
            "Restarts      1 (charged: 1 to the application, 0 to the infrastructure)\n"
            "Ranks ready   2/2\n"
            "Progress      epoch 1  step 40/400  loss 0.5000  ETA 1m00s\n"
            "Checkpoint    step 30 in /runs/job/checkpoints/step-30/g-2 (8s ago)\n"
            "Logs          /runs/job/logs/20260101T000000.000\n"
            "\n"
            "ATTEMPT   CAUSE OF ITS END   RANK   EXIT CODE   MESSAGE\n"
            "      1   Application           1           7   exit code 7: no | luck[2J\n");
}

TEST(JobText, OfARunWhoseProcessIsGonePromisesNothing) {
  LocalRun run = a_run();
  run.is_in_progress = false;
  run.status->attempts.clear();
  run.status->restart_count = 0;
  EXPECT_EQ(job_text(report_of(run), looked_at),
            "Name         job\n"
            "Folder       /runs/job\n"
            "Phase        Interrupted\n"
            "Reason       the run's process died; the same `trainyard run` resumes from the last checkpoint\n"
            "Started      2026-01-01T00:00:00Z (2m10s ago)\n"
            "Attempt      2\n"
            "Restarts     0\n"
            "Progress     epoch 1  step 40/400  loss 0.5000\n"
            "Checkpoint   step 30 in /runs/job/checkpoints/step-30/g-2 (8s ago)\n"
            "Logs         /runs/job/logs/20260101T000000.000\n");
}

TEST(JobText, OfAJobInAClusterSaysItsNamespaceAndWhatItWaitsFor) {
  api::TrainingJob job;
  job.metadata.name = "smoke";
  job.metadata.name_space = "research";
  EXPECT_EQ(job_text(report_of(job), looked_at), "Name        smoke\nNamespace   research\nPhase       Pending\n");
  job.status.phase = Phase::failed;
  job.status.reason = "ApplicationBudget";
  job.status.message = "exit code 7";
  job.status.start_time = begun_at;
  job.status.completion_time = looked_at - 10s;
  EXPECT_EQ(job_text(report_of(job), looked_at),
            "Name        smoke\nNamespace   research\nPhase       Failed\nReason      ApplicationBudget: exit code 7\n"
            "Started     2026-01-01T00:00:00Z (2m10s ago)\nEnded       2026-01-01T00:02:00Z (10s ago)\n");
}

TEST(JobJson, IsTheStatusWithTheJobsNamePhaseAndPlace) {
  LocalRun run = a_run();
  run.is_in_progress = false;
  nlohmann::json expected = api::to_json(*run.status);
  expected.update({{"name", "job"},
                   {"phase", "Interrupted"},
                   {"folder", "/runs/job"},
                   {"logs", "/runs/job/logs/20260101T000000.000"},
                   {"startTime", "2026-01-01T00:00:00Z"}});
  EXPECT_EQ(job_json(report_of(run)), expected);
  const LocalRun silent{.name = "job", .folder = "/runs/job", .logs = "/l", .start = {}, .status = {}};
  EXPECT_EQ(job_json(report_of(silent)),
            nlohmann::json::parse(R"({"name": "job", "phase": "Ended", "folder": "/runs/job", "logs": "/l"})"));
}

}  // namespace
}  // namespace trainyard::cli

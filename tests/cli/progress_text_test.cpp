#include "cli/progress_text.hpp"

#include <gtest/gtest.h>

namespace trainyard::cli {
namespace {

using namespace std::chrono_literals;
using api::Phase;
using api::TrainingJobStatus;

const Time now{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

TrainingJobStatus status_in(Phase phase, std::int64_t attempt = 1) {
  TrainingJobStatus status;
  status.phase = phase;
  status.attempt = attempt;
  return status;
}

TEST(ProgressLine, ShowsWhatIsKnown) {
  api::TrainingJob job;
  TrainingJobStatus& status = job.status;
  status = status_in(Phase::running);
  EXPECT_EQ(progress_line(job, now), "");
  status.progress = {.epoch = 2, .step = 512, .loss = 0.5};
  EXPECT_EQ(progress_line(job, now), "epoch 2  step 512  loss 0.5000") << "a program of another kind";
  job.spec.training.emplace().epochs = 3;
  status.progress = {.epoch = 1, .step = 7, .loss = 2.31879};
  EXPECT_EQ(progress_line(job, now), "epoch 1/3  step 7  first loss 2.3188");
  status.progress = {.epoch = 2,
                     .step = 512,
                     .total_steps = 900,
                     .loss = 0.41234,
                     .accuracy = 0.88,
                     .samples_per_second = 2310.4,
                     .estimated_end = now + 41s};
  status.checkpoint = {.step = 400};
  EXPECT_EQ(progress_line(job, now),
            "epoch 2/3  step 512/900  loss 0.4123  accuracy 0.8800  2,310 samples/s  ETA 41s  checkpoint 400");
}

TEST(ProgressLine, SaysThatTheLossIsNotFiniteWhichTheProgressLeavesOut) {
  api::TrainingJob job;
  job.spec.training.emplace();
  job.status = status_in(Phase::running);
  job.status.progress = {.step = 7, .samples_per_second = 90.0};
  EXPECT_EQ(progress_line(job, now), "step 7  90 samples/s") << "a program that reports no loss";
  job.status.conditions = {{.type = "NonFiniteLoss", .is_true = true, .reason = "NaN"}};
  EXPECT_EQ(progress_line(job, now), "step 7  loss is not finite  90 samples/s");
  job.status.progress->samples_per_second.reset();
  EXPECT_EQ(progress_line(job, now), "step 7") << "an attempt that has no loss yet";
  job.status.progress->samples_per_second = 90.0;
  job.status.conditions.front().is_true = false;
  EXPECT_EQ(progress_line(job, now), "step 7  90 samples/s");
}

TEST(PhaseLine, ShowsEachPhaseOnceAndLeavesEndsToTheSummary) {
  TrainingJobStatus pending = status_in(Phase::pending);
  pending.reason = "SecretMissing";
  pending.message = "pod 1: secret \"s\" not found";
  TrainingJobStatus running = status_in(Phase::running);
  running.replicas = {.desired = 2, .ready = 2};
  TrainingJobStatus restarting = status_in(Phase::restarting, 3);
  restarting.checkpoint = {.step = 48};
  const std::vector<std::tuple<TrainingJobStatus, TrainingJobStatus, std::string>> cases{
      {{}, status_in(Phase::pending), ""},
      {status_in(Phase::starting), pending, "Pending (SecretMissing): pod 1: secret \"s\" not found"},
      {pending, pending, ""},
      {status_in(Phase::pending), status_in(Phase::starting), "Starting attempt 1"},
      {status_in(Phase::starting), running, "Running: 2 of 2 pods"},
      {running, running, ""},
      {running, status_in(Phase::restarting, 2), "Restarting as attempt 2"},
      {running, restarting, "Restarting as attempt 3; the last checkpoint is of step 48"},
      {running, status_in(Phase::suspending), ""},
      {running, status_in(Phase::succeeded), ""},
      {running, status_in(Phase::failed), ""},
  };
  for (const auto& [before, after, line] : cases) EXPECT_EQ(phase_line(before, after), line);
}

TEST(RequestLine, ShowsTheAnswerOnce) {
  using api::CheckpointRequest;
  using api::RequestState;
  const TrainingJobStatus before = status_in(Phase::running);
  TrainingJobStatus after = before;
  after.checkpoint_request = CheckpointRequest{.id = "a", .message = "waiting for rank 0 to accept the request"};
  EXPECT_EQ(request_line(before, after), "");
  after.checkpoint_request = CheckpointRequest{.id = "a", .state = RequestState::done, .step = 7, .uri = "s3://m/s"};
  EXPECT_EQ(request_line(before, after), "Requested checkpoint: step 7 saved: s3://m/s");
  EXPECT_EQ(request_line(after, after), "");
  TrainingJobStatus refused = before;
  refused.checkpoint_request = CheckpointRequest{.id = "b", .state = RequestState::failed, .message = "no space"};
  EXPECT_EQ(request_line(after, refused), "Requested checkpoint: no space");
}

TEST(EndedAttemptLines, NameTheCulpritTheCauseAndTheLog) {
  using Lines = std::vector<std::string>;
  TrainingJobStatus after = status_in(Phase::restarting, 2);
  after.attempts = {{.number = 1,
                     .end = now,
                     .cause = api::Cause::application,
                     .rank = 1,
                     .exit_code = 7,
                     .message = "no such file\nat line 3\n"}};
  const std::string end = "Attempt 1 ended: rank 1 failed (exit code 7): no such file | at line 3";
  EXPECT_EQ(ended_attempt_lines(status_in(Phase::running), after, "/logs"),
            Lines{end + "; its log: /logs/attempt-1/rank-1.log"});
  EXPECT_EQ(ended_attempt_lines(status_in(Phase::running), after, ""), Lines{end});
  EXPECT_EQ(ended_attempt_lines(after, after, "/logs"), Lines{});
  after.attempts[0].cause = api::Cause::suspended;
  EXPECT_EQ(ended_attempt_lines(status_in(Phase::running), after, "/logs"), Lines{});
  after.attempts[0] = {
      .number = 1, .end = now, .cause = api::Cause::infrastructure, .rank = 1, .exit_code = 91, .message = ""};
  EXPECT_EQ(ended_attempt_lines(status_in(Phase::running), after, ""),
            Lines{"Attempt 1 ended: rank 1 was stopped (exit code 91)"});
}

TEST(EndedAttemptLines, AreThereForEveryAttemptSinceTheLastStatus) {
  TrainingJobStatus after = status_in(Phase::running, 3);
  for (const std::int64_t number : {1, 2})
    after.attempts.push_back(
        {.number = number, .end = now, .cause = api::Cause::application, .message = "exit code 3"});
  EXPECT_EQ(ended_attempt_lines(TrainingJobStatus{}, after, ""),
            (std::vector<std::string>{"Attempt 1 ended: exit code 3", "Attempt 2 ended: exit code 3"}));
}

TEST(SummaryOf, SaysTheResultAndWhereFilesAre) {
  api::TrainingJob job;
  job.status = status_in(Phase::succeeded);
  job.status.restart_count = 1;
  job.status.progress = {.step = 900, .accuracy = 0.8993};
  job.status.checkpoint = {.step = 900, .uri = "file:///c/step-900/g-1"};
  using Lines = std::vector<std::string>;
  EXPECT_EQ(summary_of(job, {.logs = "/logs", .took = 74s, .worker_message = "trained 900 steps"}),
            (Lines{"Succeeded in 1m14s at step 900 after 1 restart", "  accuracy       0.8993",
                   "  result         trained 900 steps", "  checkpoint     step 900 in /c/step-900/g-1",
                   "  logs           /logs"}));
}

TEST(NextRunLine, SaysWithWhatTheSameCommandBegins) {
  const auto line = [](bool is_saved, api::ResumeMode resume, const std::string& uri) {
    api::TrainingJob job;
    job.spec.checkpoint = api::CheckpointSpec{};
    job.spec.checkpoint->uri = uri;
    job.spec.checkpoint->resume = resume;
    if (is_saved) job.status.checkpoint = {.step = 900, .uri = uri + "/step-900/g-1"};
    return next_run_line(job);
  };
  using api::ResumeMode;
  EXPECT_EQ(next_run_line({}), "");
  EXPECT_EQ(line(true, ResumeMode::automatic, "file:///c"),
            "Run the command again to resume from the last checkpoint.");
  EXPECT_EQ(line(true, ResumeMode::none, "file:///c"),
            "If you run the command again, it begins afresh, since checkpoint.resume is none: without that line it "
            "resumes from the "
            "last checkpoint.");
  for (const char* const uri : {"file:///c", "s3://c/run"}) {
    EXPECT_EQ(line(false, ResumeMode::automatic, uri),
              "Run the command again to resume from the last checkpoint, if one was saved.");
    EXPECT_EQ(line(false, ResumeMode::none, uri),
              "If you run the command again, it begins afresh, since checkpoint.resume is none.");
  }
}

TEST(SummaryOf, SaysThatNothingWasLeftToTrain) {
  api::TrainingJob job;
  job.status = status_in(Phase::succeeded);
  job.status.checkpoint = {.step = 900, .uri = "s3://c/step-900/g-1"};
  EXPECT_EQ(summary_of(job, {.logs = "/logs", .took = 1s, .is_already_complete = true}).front(),
            "Succeeded in 1s at step 900, without training: nothing was left to train");
}

TEST(SummaryOf, SaysWhyAJobFailedAndWhereItsCulpritLogged) {
  api::TrainingJob job;
  job.status = status_in(Phase::failed);
  job.status.reason = "DoNotRestart";
  job.status.message = "exit code 93: no such data";
  job.status.attempts = {{.number = 1, .end = now, .cause = api::Cause::application, .rank = 0}};
  using Lines = std::vector<std::string>;
  EXPECT_EQ(summary_of(job, {.logs = "/logs"}),
            (Lines{"Failed (DoNotRestart): exit code 93: no such data", "  its log        /logs/attempt-1/rank-0.log",
                   "  logs           /logs"}));
}

TEST(SummaryOf, SaysTheFailureOfACommandInTheWordsOfItsOptions) {
  api::TrainingJob job;
  job.status = status_in(Phase::failed);
  job.status.reason = "ApplicationBudget";
  job.status.message = "exit code 3: ValueError: bad; no restart is allowed (spec.restart.application.max: 0)";
  job.status.attempts = {{.number = 1,
                          .end = now,
                          .cause = api::Cause::application,
                          .rank = 1,
                          .exit_code = 3,
                          .message = "exit code 3: ValueError: bad"}};
  const auto first_line = [&] { return summary_of(job, {.logs = "/logs", .is_command = true}).front(); };
  job.spec.restart.application.max = 0;
  EXPECT_EQ(first_line(),
            "Failed: rank 1 ended with exit code 3: ValueError: bad; no restarts allowed (--max-restarts 0)");
  job.spec.restart.application.max = 1;
  EXPECT_EQ(first_line(),
            "Failed: rank 1 ended with exit code 3: ValueError: bad; the one restart is used up (--max-restarts 1)");
  job.spec.restart.application.max = 2;
  job.status.attempts[0].message = "the pod is gone";
  EXPECT_EQ(first_line(), "Failed: rank 1: the pod is gone; all 2 restarts are used up (--max-restarts 2)");
  job.status.reason = "DoNotRestart";
  job.status.message = "exit code 93";
  EXPECT_EQ(first_line(), "Failed (DoNotRestart): exit code 93");
  EXPECT_EQ(summary_of(job, {.logs = "/logs", .is_command = true}).size(), 2U) << "a rank has two logs there";
}

TEST(ProgressLine, HasAnEndOnlyWhileTheJobRunsAndNoneInThePast) {
  api::TrainingJob job;
  job.status = status_in(Phase::running);
  job.status.progress = {.step = 7, .estimated_end = now - 5s};
  EXPECT_EQ(progress_line(job, now), "step 7  ETA 0s");
  job.status.phase = Phase::restarting;
  EXPECT_EQ(progress_line(job, now), "step 7");
}

TEST(SummaryOf, SaysHowFarAStoppedJobIsAndWhereItsCheckpointsWillBe) {
  using Lines = std::vector<std::string>;
  api::TrainingJob job;
  job.status = status_in(Phase::suspended);
  EXPECT_EQ(summary_of(job, {.logs = "/logs"}), (Lines{"Stopped", "  logs           /logs"}));
  job.spec.checkpoint.emplace().uri = "file:///c";
  job.status.progress = {.step = 7};
  EXPECT_EQ(summary_of(job, {.logs = "/logs"}),
            (Lines{"Stopped at step 7", "  checkpoints    /c", "  logs           /logs"}));
  job.status.checkpoint = {.step = 9, .uri = "file:///c/step-9/g-1"};
  EXPECT_EQ(summary_of(job, {.logs = "/logs"}).front(), "Stopped at step 9") << "it was saved after the last report";
  job.status.checkpoint.reset();
  job.status.phase = Phase::failed;
  EXPECT_EQ(summary_of(job, {.logs = "/logs"}), (Lines{"Failed", "  logs           /logs"}));
}

TEST(SummaryOf, NamesTheHostOfTheCulprit) {
  api::TrainingJob job;
  job.status = status_in(Phase::failed);
  job.status.attempts = {{.number = 1, .end = now, .cause = api::Cause::application, .rank = 1}};
  using Lines = std::vector<std::string>;
  EXPECT_EQ(summary_of(job, {.logs = "/logs", .hosts = {"a", "b"}}),
            (Lines{"Failed", "  culprit        rank 1 on b", "  its log        /logs/attempt-1/rank-1.log",
                   "  logs           /logs"}));
  job.status.phase = Phase::succeeded;
  job.status.restart_count = 2;
  EXPECT_EQ(summary_of(job, {.logs = "/logs", .took = 1s}).front(), "Succeeded in 1s after 2 restarts");
}

TEST(OneLine, LeavesOutTheMiddleOfALongText) {
  EXPECT_EQ(one_line(std::string(600, 'x')), std::string(600, 'x'));
  EXPECT_EQ(one_line(std::string(400, 'a') + std::string(201, 'b')),
            std::string(300, 'a') + " ... " + std::string(99, 'a') + std::string(201, 'b'));
  EXPECT_EQ(one_line(std::string(299, 'a') + "\u00fc" + std::string(299, 'c') + "\u00fc" + std::string(299, 'b')),
            std::string(299, 'a') + " ... " + std::string(299, 'b'))
      << "cut between characters";
  EXPECT_EQ(one_line("\n\na\n\n b\x7f\n"), "a |  b");
}

TEST(SummaryOf, ShowsNoControlCharacters) {
  api::TrainingJob job;
  job.status = status_in(Phase::failed);
  job.status.message = "10%\r\x1b[31mno\tluck\x07\n";
  EXPECT_EQ(summary_of(job, {.logs = "/logs"}).front(), "Failed: 10%[31mno luck");
}

TEST(FormatSpan, UsesTheTwoLargestUnits) {
  const std::vector<std::pair<std::chrono::milliseconds, std::string>> cases{
      {0ms, "0s"},    {41'400ms, "41s"},     {59'400ms, "59s"}, {59'500ms, "1m00s"},
      {60s, "1m00s"}, {3599'500ms, "1h00m"}, {185s, "3m05s"},   {2h + 5min + 9s, "2h05m"}};
  for (const auto& [span, text] : cases) EXPECT_EQ(format_span(span), text);
}

TEST(FormatCount, GroupsThousands) {
  const std::vector<std::pair<double, std::string>> cases{
      {0, "0"},         {-5, "0"},         {999, "999"},          {1000, "1,000"}, {100'000, "100,000"},
      {999.6, "1,000"}, {12345, "12,345"}, {1234567, "1,234,567"}};
  for (const auto& [count, text] : cases) EXPECT_EQ(format_count(count), text);
}

}  // namespace
}  // namespace trainyard::cli

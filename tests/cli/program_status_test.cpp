#include <gmock/gmock.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/cli/program_fixture.hpp"

/// `trainyard ps` and `trainyard status`, which read a run from another process.
namespace trainyard::cli {
namespace {

using namespace nlohmann::literals;
using testing::HasSubstr;
using testing::MatchesRegex;
using Outcome = ProgramOutcome;

class ProgramStatusTest : public ProgramTest {
 protected:
  /// A job that waits for the file "go" and then ends with `exit_code`.
  std::string waiting_job(int exit_code) {
    return shell_job("touch $FOLDER/up; while ! [ -e $FOLDER/go ]; do sleep 0.05; done; exit " +
                     std::to_string(exit_code));
  }
  /// The phase of the only run, from `trainyard ps`.
  std::string phase() {
    const auto runs = nlohmann::json::parse(run({"ps", "-o", "json"}).out, nullptr, false);
    return runs.is_array() && runs.size() == 1 ? runs[0].value("phase", "") : "";
  }
};

TEST_F(ProgramStatusTest, ARunIsSeenFromAnotherProcessToItsEnd) {
  auto group = start({"run", waiting_job(0)});
  ASSERT_TRUE(appears("up"));
  ASSERT_TRUE(comes_true([&] { return phase() == "Running"; }));
  EXPECT_THAT(run({"ps"}).out,
              MatchesRegex("NAME   PHASE     ATTEMPT   STEP +AGE\njob    Running         1      - +[0-9]+s\n"));
  EXPECT_THAT(run({"status", "job"}).out, HasSubstr("Phase         Running\n"));
  folder_.write("go", "");
  EXPECT_EQ(end_of(group).exit_code, 0);
  EXPECT_EQ(phase(), "Succeeded");
}

TEST_F(ProgramStatusTest, StatusShowsTheCauseOfEachRestart) {
  EXPECT_EQ(run({"run", shell_job("exit 7"), "--dir", "here"}).exit_code, 1);
  const Outcome told = run({"status", "job", "--dir", "here"});
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("Phase      Failed\nReason     ApplicationBudget: exit code 7"));
  EXPECT_THAT(told.out, HasSubstr("Restarts   1 (charged: 1 to the application, 0 to the infrastructure)\n"));
  EXPECT_THAT(told.out, HasSubstr("\n      1   Application           0           7   exit code 7"));
  EXPECT_EQ(nlohmann::json::parse(run({"status", "job", "--dir", "here", "-o", "json"}).out).at("phase"), "Failed");
  EXPECT_THAT(run({"ps", "--dir", "here", "-o", "yaml"}).out, HasSubstr("  phase: Failed\n"));
  EXPECT_EQ(run({"ps"}).err, "note: there are no runs in trainyard-runs\n");
}

TEST_F(ProgramStatusTest, ACheckpointThatNoReportNamedIsInTheStatusOfARunThatEnded) {
  checkpoint::TestPrefix prefix{std::make_unique<storage::FileStore>(folder_.file("saved"))};
  prefix.claim(1);
  prefix.save({9, 1});
  const std::string worker = folder_
                                 .write("worker", R"(#!/bin/sh
mkdir -p "$FOLDER/trainyard-runs/train"
cp -r "$FOLDER/saved" "$FOLDER/trainyard-runs/train/checkpoints"
)")
                                 .string();
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const std::string job = folder_
                              .write("train.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: train}
spec: {gpusPerPod: 0, training: {model: {name: fashion_cnn}, data: {format: synthetic}}}
)")
                              .string();
  EXPECT_EQ(run({"run", "--worker", worker, job}).exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(run({"status", "train", "-o", "json"}).out).at("/checkpoint/step"_json_pointer), 9);
}

TEST_F(ProgramStatusTest, ARunWhoseProcessWasKilledIsInterrupted) {
  auto group = start({"run", waiting_job(0)});
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up"));
  ASSERT_TRUE(comes_true([&] { return phase() == "Running"; }));
  ::kill(pid, SIGKILL);
  end_of(group);
  ASSERT_TRUE(comes_true([&] { return phase() != "Running"; }));
  EXPECT_EQ(phase(), "Interrupted");
  EXPECT_THAT(run({"status", "job"}).out,
              HasSubstr("Reason     the run's process died; the same `trainyard run` resumes"));
}

TEST_F(ProgramStatusTest, ARunThatWasStoppedIsSuspended) {
  auto group = start({"run", shell_job("trap 'exit 91' TERM; touch $FOLDER/up; while :; do sleep 0.05; done")});
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up"));
  ::kill(pid, SIGINT);
  EXPECT_EQ(end_of(group).exit_code, 130);
  EXPECT_EQ(phase(), "Suspended");
}

TEST_F(ProgramStatusTest, AStatusThatCannotBeWrittenIsReportedOnceAndTheRunContinues) {
  // A folder with the name of the status file, so that the file cannot be written.
  const std::string put_folder =
      "S=$FOLDER/trainyard-runs/job/logs/latest/status.json; "
      "until [ -d $S ] || mkdir $S 2>/dev/null; do rm -f $S; done; ";
  const Outcome ended = run({"run", shell_job(put_folder + "[ $TRAINYARD_ATTEMPT = 2 ]")});
  EXPECT_EQ(ended.exit_code, 0) << ended.out;
  const std::string said = "`trainyard ps` will not show the progress of this run";
  EXPECT_THAT(ended.out, HasSubstr(said));
  EXPECT_EQ(ended.out.find(said), ended.out.rfind(said)) << ended.out;
  const Outcome unread = run({"ps"});
  EXPECT_EQ(unread.exit_code, 1);
  EXPECT_THAT(unread.err, HasSubstr("status.json"));
}

TEST_F(ProgramStatusTest, PsListsTheNewestRunLast) {
  for (const auto& [name, time] :
       {std::pair{"c", "20260101T000002.000"}, {"b", "20260101T000003.000"}, {"a", "20260101T000001.000"}}) {
    const auto logs = folder_.file(std::string{"trainyard-runs/"} + name + "/logs");
    std::filesystem::create_directories(logs / time);
    std::filesystem::create_directory_symlink(time, logs / "latest");
  }
  EXPECT_THAT(run({"ps"}).out, MatchesRegex("NAME .*\na +Ended .*\nc +Ended .*\nb +Ended .*\n"));
  EXPECT_THAT(run({"ps", "--dir", "trainyard-runs/c"}).out, MatchesRegex("NAME .*\nc +Ended .*\n"));
}

TEST_F(ProgramStatusTest, OfAnUnknownJobSaysWhereItLooked) {
  const Outcome outcome = run({"status", "nobody"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("there is no run of nobody on this machine (trainyard-runs/nobody), and no cluster to ask: "));
  EXPECT_EQ(run({"status", "job", "--dir", "nowhere"}).err,
            "error: no run has used the folder " + folder_.path() + "/nowhere\n");
  EXPECT_EQ(run({"logs", "job", "--dir", "nowhere"}).err, "error: no run has used the folder nowhere\n");
}

TEST_F(ProgramStatusTest, OfAClusterThatCannotBeFoundDoesNotMentionRunsOnThisMachine) {
  const Outcome outcome = run({"status", "nobody", "-n", "research", "--kubeconfig", "nowhere"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, testing::StartsWith("error: cannot reach a cluster: "));
}

}  // namespace
}  // namespace trainyard::cli

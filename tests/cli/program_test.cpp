#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>

#include "tests/cli/program_fixture.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::cli {
namespace {

using namespace std::chrono_literals;
using fakes::text_of;
using testing::HasSubstr;
using testing::StartsWith;
using Outcome = ProgramOutcome;

TEST_F(ProgramTest, HelpAndVersionAreNoErrors) {
  EXPECT_EQ(run({"--version"}).exit_code, 0);
  for (const std::string command :
       {"run", "validate", "render", "logs", "ps", "status", "checkpoint", "checkpoints", "snapshots", "completion"}) {
    const Outcome help = run({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Usage: trainyard " + command));
  }
}

TEST_F(ProgramTest, WrongUsageIsExitCode2AndSaysWhatIsWrong) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{},
       "error: trainyard needs a command; there are:\n  run          Run TrainingJobs on this machine, without "
       "Kubernetes\n  validate     "},
      {{"vaildate", "a.yaml"}, "error: vaildate is not a command of trainyard; did you mean validate?\n"},
      {{"start", "a.yaml"},
       "error: start is not a command of trainyard; there are run, validate, render, logs, ps, status, checkpoint, "
       "checkpoints, snapshots, init, completion\n"},
      {{"checkpoints"}, "error: trainyard checkpoints needs a command; there are:\n  ls      List checkpoints"},
      {{"init"}, "error: trainyard init needs a command; there are:\n  model  Write a project"},
      {{"init", "model", "MyNet"}, "error: 'MyNet' cannot be a model's name: use lower-case words"},
      {{"checkpoints", "exprot"}, "error: exprot is not a command of trainyard checkpoints; did you mean export?\n"},
      {{"--verbos"}, "error: unknown option --verbos; did you mean --verbose?\n"},
      {{"validate", "a.yaml", "--fix"}, "error: unknown option --fix\n"},
      {{"run", "a.yaml", "--voluem", "a=b"}, "error: unknown option --voluem; did you mean --volume?\n"},
      {{"run", "a.yaml", "--voluem=a=b"}, "error: unknown option --voluem; did you mean --volume?\n"},
      {{"logs", "job", "--namepsace=x"}, "error: unknown option --namepsace; did you mean --namespace?\n"},
      {{"run", "a.yaml", "b.yaml"}, "error: unexpected argument b.yaml\n"},
      {{"run"}, "error: run needs a FILE, or a command after --"},
      {{"run", "a.yaml", "--", "true"}, "error: run takes a FILE or -- COMMAND, not both"},
      {{"run", "--nproc", "2", "--"}, "error: there is no command after --"},
      {{"run", "--tee", "3", "a.yaml"}, "error: --tee requires --nproc\nTry: trainyard run --help\n"},
      {{"run", "--nproc", "4", "a.yaml"},
       "error: --nproc is for a command after --; a TrainingJob sets the number of its pods by spec.replicas, and "
       "--devices chooses another number for this machine\n"},
      {{"run", "--nproc", "4", "train.py"},
       "put the command of the ranks after --: trainyard run --nproc 4 -- python3 train.py\n"},
      {{"run", "train.py"}, "put the command of the ranks after --: trainyard run --nproc 1 -- python3 train.py\n"},
      {{"run", "--nproc", "4", "train", "lr=1"},
       "put the command of the ranks after --: trainyard run --nproc 4 -- train lr=1\n"},
      {{"run", "--nproc", "4", "--dir", "d", "--", "true"},
       "error: --dir is for a FILE with TrainingJobs; for the logs of a command use --log-dir"},
      {{"run", "--volume", "a=b", "--", "true"}, "error: --volume is for a FILE with TrainingJobs, not for a command"},
      {{"run", "--nproc", "2", "-t", "9", "--", "true"}, "error: --tee '9': must be 0 (none)"},
      {{"run", "a.yaml", "-H", "a:b"}, "error: -H a:b: 'a:b' must be HOST or HOST:SLOTS with 1 to 1024 slots"},
      {{"run", "-np", "4", "-H", "a:2,b", "--", "true"}, "error: 4 ranks do not fit into 3 slots (a:2, b:1)"},
      {{"run", "-np", "4", "a.yaml"}, "error: --nproc is for a command after --"},
      {{"run", "-np", "4", "-t", "3", "-H", "a:4", "a.yaml"},
       "error: --tee is for a command after --; a TrainingJob sets the number of its pods by spec.replicas\n"},
      {{"run", "a.yaml", "--ssh-config", "f"}, "error: --ssh-config needs -H or --hostfile"},
      {{"validate"}, "error: FILE is required\nTry: trainyard validate --help\n"},
      {{"validate", "a.yaml", "--", "true"}, "error: only `trainyard run` takes a command after --"},
      {{"logs"}, "error: JOB is required\nTry: trainyard logs --help\n"},
      {{"checkpoint", "job", "--timeout", "soon"}, "--timeout: "},
  };
  for (const auto& [arguments, sentence] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << sentence;
    EXPECT_THAT(outcome.err, HasSubstr(sentence));
  }
}

TEST_F(ProgramTest, RunGivesTheWorkerItsNodeAndTheFolderOfLocalCheckpoints) {
  const std::string worker = folder_
                                 .write("worker", R"(#!/bin/sh
echo "$TRAINYARD_NODE_NAME $TRAINYARD_SPEC" >"$FOLDER/told"
)")
                                 .string();
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const std::string job = folder_
                              .write("copied.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: copied}
spec:
  gpusPerPod: 0
  training: {model: {name: fashion_cnn}, data: {format: synthetic}}
  checkpoint: {uri: "s3://models/copied", local: {path: /local/copies, every: {time: 30s}}}
  template:
    spec:
      containers: [{name: worker, volumeMounts: [{name: l, mountPath: /local}]}]
      volumes: [{name: l, persistentVolumeClaim: {claimName: disks}}]
)")
                              .string();
  const Outcome outcome = run({"run", "--worker", worker, "--volume", "disks=" + folder_.path() + "/disks", job});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string told = text_of(folder_.file("told"));
  EXPECT_THAT(told, testing::Not(StartsWith(" "))) << "a node has a name";
  EXPECT_THAT(
      told, HasSubstr(R"("local":{"every":{"time":"30s"},"keep":1,"path":")" + folder_.path() + R"(/disks/copies"})"));
}

TEST_F(ProgramTest, MissingClaimsAreReportedAtOnce) {
  const std::string job = paths::source("examples/fashion-mnist.yaml");
  EXPECT_EQ(run({"run", job}).err,
            "error: " + job +
                ": document 1 (TrainingJob fashion-mnist): volume claims 'checkpoints', 'datasets' have no "
                "folder on this machine; add --volume checkpoints=FOLDER --volume datasets=FOLDER\n");
}

TEST_F(ProgramTest, AProgramThatIsNotBuiltYetIsReportedAtOnce) {
  const Outcome outcome = run({"run", "--worker", "build/my_net", paths::source("examples/smoke.yaml")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/build/my_net, which --worker names, was not found, or cannot be executed: build "
                                     "it first, or correct the path\n"));
}

TEST_F(ProgramTest, AJobWhoseNameAnApiServerWouldMakeIsRefused) {
  std::string job = text_of(shell_job("true"));
  job.replace(job.find("name: job"), 9, "generateName: job-");
  folder_.write("job.yaml", job);
  const Outcome outcome = run({"run", "job.yaml"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("metadata.name: must be given, since only an API server makes names"));
  EXPECT_EQ(run({"validate", "job.yaml"}).exit_code, 0);
}

TEST_F(ProgramTest, RunShowsTheOutputOfRank0AndWhereThingsAre) {
  const Outcome outcome = run({"run", shell_job("echo I am $RANK", 2)});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              StartsWith("job: 2 processes on this machine, in " + folder_.path() + "/trainyard-runs/job\n"));
  EXPECT_THAT(outcome.out, HasSubstr("I am 0\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Succeeded in "));
  EXPECT_EQ(run({"logs", "job", "--rank", "1"}).out, "I am 1\n");
}

TEST_F(ProgramTest, RunGivesTheWorkerTheSpecWithTheFoldersOfThisMachine) {
  const std::string worker =
      folder_.write("worker", "#!/bin/sh\necho \"$TRAINYARD_SPEC\"; echo \"key is $AWS_ACCESS_KEY_ID\"\n").string();
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const std::string secret = folder_.write("credentials", "AWS_ACCESS_KEY_ID=abc\n").string();
  const std::string job = folder_
                              .write("train.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: train}
spec:
  template: {spec: {containers: [{name: worker, envFrom: [{secretRef: {name: s3}}]}]}}
  training: {model: {name: fashion_cnn}, data: {format: idx, volumeClaim: datasets, path: fashion}}
)")
                              .string();
  std::filesystem::create_directory(folder_.file("data"));
  const Outcome outcome =
      run({"run", "--worker", worker, "--secret", "s3=" + secret, "--volume", "datasets=data", job});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const std::string log = run({"logs", "train"}).out;
  EXPECT_THAT(log, HasSubstr("\"path\":\"" + folder_.path() + "/data/fashion\""));
  EXPECT_THAT(log, HasSubstr("\"uri\":\"file://" + folder_.path() + "/trainyard-runs/train/checkpoints\""));
  EXPECT_THAT(log, HasSubstr("key is abc\n"));
}

TEST_F(ProgramTest, RunsTheRanksOfHostsThatAreThisMachineWithoutSsh) {
  const Outcome outcome =
      run({"run", "-np", "2", "-H", "localhost:1,127.0.0.1:1", "-t", "1", "--", "sh", "-c", "echo $RANK $NODE_RANK"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("[rank0]: 0 0\n"));
  EXPECT_THAT(outcome.out, HasSubstr("[rank1]: 1 1\n"));
}

TEST_F(ProgramTest, RunPrintsARestartWithItsCauseAndAFailureWithItsLog) {
  const Outcome outcome = run({"run", shell_job("echo no luck; exit 7"), "--dir", "here"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(
      outcome.out,
      HasSubstr("Attempt 1 ended: rank 0 failed: exit code 7: no luck; its log: " + folder_.path() + "/here/logs/"));
  EXPECT_THAT(outcome.out, HasSubstr("Failed (ApplicationBudget): exit code 7"));
  EXPECT_EQ(run({"logs", "job", "--dir", "here", "--attempt", "1"}).out, "no luck\n");
  EXPECT_THAT(run({"logs", "job", "--dir", "here", "--attempt", "9"}).err, HasSubstr("there is no attempt 9"));
  EXPECT_THAT(run({"logs", "job", "--dir", "here", "--rank", "5"}).err,
              HasSubstr("there is no log of rank 5 in attempt 2; ranks with a log: 0"));
}

TEST_F(ProgramTest, SigintLetsTheRanksEndAndIsExitCode130) {
  auto group = start(
      {"run", shell_job("trap 'touch $FOLDER/saved; exit 91' TERM; touch $FOLDER/up; while :; do sleep 0.05; done")});
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up"));
  ::kill(pid, SIGINT);
  const Outcome outcome = end_of(group);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("saved")));
  EXPECT_THAT(outcome.out,
              HasSubstr("Stopping: the ranks end, and save first if they can. Ctrl-C again kills them.\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Stopped\n"));
}

TEST_F(ProgramTest, ACommandThatIsStoppedIsReportedBesideItsOutput) {
  auto group = start({"run", "--nproc", "1", "--", "sh", "-c",
                      "trap 'echo saved; exit 0' TERM; touch $FOLDER/up; while :; do sleep 0.05; done"});
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up"));
  ::kill(pid, SIGINT);
  const Outcome outcome = end_of(group);
  EXPECT_EQ(outcome.out, "saved\n");
  EXPECT_THAT(outcome.err,
              HasSubstr("Stopping: the ranks end, and save first if they can. Ctrl-C again kills them.\n"));
}

TEST_F(ProgramTest, SigintStillLetsTheRanksEndWhenNobodyReadsTheOutputAnyMore) {
  const std::string job =
      shell_job("trap 'touch $FOLDER/saved; exit 91' TERM; touch $FOLDER/up; while :; do sleep 0.05; done");
  auto group = start_shell("{ sh -c 'echo $$ >pid; exec \"$0\" run job.yaml 2>&1' \"$0\"; echo $? >code; } | true");
  ASSERT_TRUE(appears("up"));
  ::kill(std::stoi(text_of(folder_.file("pid"))), SIGINT);
  end_of(group);
  EXPECT_EQ(text_of(folder_.file("code")), "130\n");
  EXPECT_TRUE(std::filesystem::exists(folder_.file("saved")));
}

TEST_F(ProgramTest, ASignalThatWasIgnoredFromTheStartStaysSo) {
  const std::string job = shell_job("touch $FOLDER/up; while :; do sleep 0.05; done");
  auto group = start_shell("trap '' HUP; exec \"$0\" run job.yaml");
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up"));
  ::kill(pid, SIGHUP);
  ::kill(pid, SIGTERM);
  EXPECT_EQ(end_of(group).exit_code, 128 + SIGTERM) << "the first signal that is not ignored";
}

TEST_F(ProgramTest, SigintIsTakenByARunInAScriptsBackgroundToo) {
  const std::string job =
      shell_job("trap 'touch $FOLDER/saved; exit 91' TERM; touch $FOLDER/up; while :; do sleep 0.05; done");
  // A shell without job control starts background programs with SIGINT ignored.
  auto group = start_shell("trap '' INT; exec \"$0\" run job.yaml");
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up"));
  ::kill(pid, SIGINT);
  EXPECT_EQ(end_of(group).exit_code, 130);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("saved")));
}

TEST_F(ProgramTest, AStoppedFileOfJobsDoesNotBeginTheNext) {
  const std::string job = text_of(shell_job("touch $FOLDER/began; kill -INT $(cat $FOLDER/pid)"));
  std::string next = text_of(shell_job("touch $FOLDER/next"));
  next.replace(next.find("name: job"), 9, "name: two");
  folder_.write("job.yaml", job + "---\n" + next);
  auto group = start_shell("echo $$ >pid; exec \"$0\" run job.yaml");
  EXPECT_EQ(end_of(group).exit_code, 130);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("began")));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("next")));
}

TEST_F(ProgramTest, TwoJobsOfOneNameAreRefused) {
  const std::string job = text_of(shell_job("true"));
  folder_.write("job.yaml", job + "---\n" + job);
  EXPECT_EQ(run({"run", "job.yaml"}).err,
            "error: job.yaml: document 2 (TrainingJob job): an earlier job in the file has the same name\n");
}

TEST_F(ProgramTest, ARefusedRunLeavesNoTrace) {
  EXPECT_EQ(run({"run", shell_job("echo first")}).exit_code, 0);
  const auto runs = [&] {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{folder_.file("trainyard-runs")})
      found.push_back(entry.path());
    return found;
  };
  const auto before = runs();
  folder_.write("job.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  gpusPerPod: 0
  training: {model: {name: fashion_cnn}, data: {format: idx, volumeClaim: datasets}}
)");
  const Outcome outcome = run({"run", "job.yaml", "--volume", "datasets=data"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "error: job.yaml: document 1 (TrainingJob job): --volume datasets=" + folder_.path() +
                             "/data: there is no such folder\n");
  EXPECT_EQ(runs(), before);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("data")));
  EXPECT_EQ(run({"logs", "job"}).out, "first\n");
}

TEST_F(ProgramTest, ASecondSigintKillsWhatDoesNotEnd) {
  auto group = start({"run", shell_job("trap '' TERM; touch $FOLDER/up; while :; do sleep 0.05; done")});
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up"));
  ::kill(pid, SIGINT);
  ASSERT_TRUE(says("Stopping"));
  ::kill(pid, SIGINT);
  EXPECT_EQ(end_of(group).exit_code, 130);
  EXPECT_THAT(out(), HasSubstr("Killed.\n")) << "the job makes no checkpoints";
}

TEST_F(ProgramTest, ASecondRunInTheSameFolderIsRefused) {
  auto group = start({"run", shell_job("touch $FOLDER/up; while ! [ -e $FOLDER/go ]; do sleep 0.05; done")});
  ASSERT_TRUE(appears("up"));
  EXPECT_THAT(run({"run", folder_.file("job.yaml").string()}).err,
              StartsWith("error: another `trainyard run` uses the folder "));
  folder_.write("go", "");
  EXPECT_EQ(end_of(group).exit_code, 0);
}

TEST_F(ProgramTest, RunsTheRanksOfACommandAsTorchrunDoes) {
  const Outcome plain = run({"run", "--nproc", "2", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE -x \"$0\"", "--help"});
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("0 of 2 -x --help\n"));
  EXPECT_THAT(plain.out, HasSubstr("1 of 2 -x --help\n"));

  const Outcome teed =
      run({"run", "--nproc", "2", "-t", "3", "--log-dir", "logs", "--", "sh", "-c", "echo out; echo err >&2"});
  EXPECT_THAT(teed.out, HasSubstr("[rank1]: out\n"));
  EXPECT_THAT(teed.err, HasSubstr("[rank0]: err\n"));
  EXPECT_EQ(text_of(folder_.file("logs/logs/latest/attempt-1/rank-1.stderr.log")), "err\n");

  const Outcome apart = run({"run", "--nproc", "1", "--", "sh", "-c", "printf out; printf err >&2"});
  EXPECT_EQ(apart.out, "out");
  EXPECT_EQ(apart.err, "err");

  EXPECT_EQ(run({"run", "--nproc", "2", "-r", "3", "--", "echo", "quiet"}).out, "");
  const Outcome failed = run({"run", "--nproc", "2", "--", "sh", "-c", "exit $RANK"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(failed.out, "");
  EXPECT_THAT(failed.err, HasSubstr("exit code 1"));
}

TEST_F(ProgramTest, RanksOfACommandHaveTheEnvironmentOfOneTorchrunNode) {
  const std::string script =
      "echo $RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $NODE_RANK group $GROUP_RANK "
      "of $PET_NNODES x $PET_NPROC_PER_NODE at $PET_NODE_RANK, $OMP_NUM_THREADS thread";
  const Outcome outcome = run({"run", "--nproc", "2", "--", "sh", "-c", script});
  EXPECT_THAT(outcome.out, HasSubstr("0/2 local 0/2 node 0 group 0 of 1 x 2 at 0, 1 thread\n"));
  EXPECT_THAT(outcome.out, HasSubstr("1/2 local 1/2 node 0 group 0 of 1 x 2 at 0, 1 thread\n"));
}

TEST_F(ProgramTest, AFailedCommandIsReportedWithItsStandardErrorInTheWordsOfItsOptions) {
  folder_.write("train.py", "import sys\nprint('progress 10%\\rprogress 20%')\nraise ValueError('batch 3 is empty')\n");
  const Outcome python = run({"run", "--nproc", "1", "--", "python3", "train.py"});
  EXPECT_EQ(python.exit_code, 1);
  EXPECT_THAT(python.err, HasSubstr("Failed: rank 0 ended with exit code 1: ValueError: batch 3 is empty; "
                                    "no restarts allowed (--max-restarts 0)\n"));
  const Outcome silent = run({"run", "--nproc", "1", "--max-restarts", "1", "--", "sh", "-c", "echo progress; exit 3"});
  EXPECT_THAT(silent.err, HasSubstr("Attempt 1 ended: rank 0 failed: exit code 3\n"));
  EXPECT_THAT(silent.err,
              HasSubstr("Failed: rank 0 ended with exit code 3; the one restart is used up (--max-restarts 1)\n"));
  EXPECT_THAT(silent.err, testing::Not(HasSubstr("spec.")));
}

TEST_F(ProgramTest, ACommandThatEndsWithACodeOfOursHasNoMoreRestartsThanItIsAllowed) {
  const Outcome outcome = run({"run", "--nproc", "1", "--", "sh", "-c", "exit 94"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("exit code 94; no restarts allowed (--max-restarts 0)"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("Attempt 1 ended")));
}

TEST_F(ProgramTest, TwoScriptsOfOneNameRunAtTheSameTime) {
  folder_.write("train.py",
                "import os, sys, time\nopen(sys.argv[1], 'w').close()\n"
                "while not os.path.exists('go'): time.sleep(0.01)\nprint(sys.argv[1])\n");
  auto first = start({"run", "--nproc", "1", "--", "python3", "train.py", "one"});
  ASSERT_TRUE(appears("one"));
  auto second = start({"run", "--nproc", "1", "--", "python3", "train.py", "two"});
  ASSERT_TRUE(appears("two"));
  folder_.write("go", "");
  const Outcome outcome = end_of(second);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "note: another run uses trainyard-runs/train; the logs of this run are in " + folder_.path() +
                             "/trainyard-runs/train-2\n");
  EXPECT_EQ(end_of(first).exit_code, 0);
  EXPECT_EQ(run({"logs", "train"}).out, "one\n");
  EXPECT_EQ(run({"logs", "train-2"}).out, "two\n");
}

TEST_F(ProgramTest, ASidecarOfAJobIsAskedToEndOnceTheWorkerHas) {
  const std::string job = folder_
                              .write("job.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  gpusPerPod: 0
  template:
    spec:
      initContainers:
        - name: side
          image: none
          restartPolicy: Always
          command: [sh, -c, "trap 'touch $FOLDER/asked; exit 0' TERM; touch $FOLDER/up; while :; do sleep 0.01; done"]
      containers: [{name: worker, image: none, command: [sh, -c, "while ! [ -e $FOLDER/up ]; do sleep 0.01; done"]}]
)")
                              .string();
  const Outcome outcome = run({"run", job});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(folder_.file("asked")));
}

TEST_F(ProgramTest, RanksOfACommandAreNotForcedToTrainOnTheCpu) {
  const Outcome outcome = run({"run", "--nproc", "1", "--", "sh", "-c", "echo promised \"[$TRAINYARD_GPUS_PER_POD]\""});
  EXPECT_EQ(outcome.out, "promised []\n");
}

TEST_F(ProgramTest, LogsWithoutARunOrAClusterSaysWhereItLooked) {
  const Outcome outcome = run({"logs", "nobody"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("there is no run of nobody on this machine (trainyard-runs/nobody), and no cluster to ask: "));
}

TEST_F(ProgramTest, LogsFollowARunFromAttemptToAttempt) {
  auto job = start(
      {"run", shell_job("echo attempt $TRAINYARD_ATTEMPT; touch $FOLDER/up; while ! [ -e $FOLDER/go ]; do sleep 0.05; "
                        "done; [ $TRAINYARD_ATTEMPT = 2 ]")});
  ASSERT_TRUE(appears("up"));
  auto logs = start({"logs", "job", "-f"});
  ASSERT_TRUE(says("attempt 1\n"));
  folder_.write("go", "");
  EXPECT_EQ(end_of(logs).out, "attempt 1\nattempt 2\n");
  EXPECT_EQ(end_of(job).exit_code, 0);
  EXPECT_EQ(run({"logs", "job", "-f", "--attempt", "1"}).out, "attempt 1\n");
  EXPECT_EQ(run({"logs", "job"}).out, "attempt 2\n");
}

TEST_F(ProgramTest, LogsOfACommandNameItsRanks) {
  run({"run", "--nproc", "2", "-r", "3", "--", "echo", "hello"});
  EXPECT_EQ(run({"logs", "echo", "--rank", "1"}).out, "hello\n");
  EXPECT_THAT(run({"logs", "echo", "--rank", "7"}).err,
              HasSubstr("there is no log of rank 7 in attempt 1; ranks with a log: 0, 1\n"));
}

TEST_F(ProgramTest, LogsFollowARunToItsEnd) {
  auto job = start(
      {"run", shell_job("echo first; touch $FOLDER/up; while ! [ -e $FOLDER/go ]; do sleep 0.05; done; echo last")});
  ASSERT_TRUE(appears("up"));
  auto logs = start({"logs", "job", "-f"});
  ASSERT_TRUE(says("first\n"));
  EXPECT_EQ(out(), "first\n");
  folder_.write("go", "");
  EXPECT_EQ(end_of(logs).out, "first\nlast\n");
  end_of(job);
}

}  // namespace
}  // namespace trainyard::cli

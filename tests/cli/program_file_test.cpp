#include <gmock/gmock.h>

#include <algorithm>

#include "tests/cli/program_fixture.hpp"
#include "tests/paths/paths.hpp"

/// The output of `trainyard validate` and `trainyard render` for files.
namespace trainyard::cli {
namespace {

using fakes::text_of;
using testing::HasSubstr;
using testing::StartsWith;
using Outcome = ProgramOutcome;

TEST_F(ProgramTest, ValidateSaysEveryViolationWithItsPlace) {
  const std::string bad = folder_
                              .write("bad.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: one}
spec:
  replicas: 0
  training: {model: {name: fashion_cnn}, data: {format: synthetic}, batchSise: 5}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
---
apiVersion: trainyard.dev/v1
kind: TrainingJob
metadata: {name: two}
spec: {training: {model: {name: fashion_cnn}, data: {format: synthetic}}}
)")
                              .string();
  const Outcome outcome = run({"validate", bad});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr(bad + ": document 1 (TrainingJob one): spec.replicas: "));
  EXPECT_THAT(outcome.out, HasSubstr(bad + ": document 1 (TrainingJob one): spec.training.batchSise: "));
  EXPECT_THAT(outcome.out, HasSubstr(bad + ": document 2 (Secret s): not checked, since it is no TrainingJob\n"));
  EXPECT_THAT(
      outcome.out,
      HasSubstr(bad +
                ": document 3 (TrainingJob two): apiVersion: must be trainyard.dev/v1alpha1, got trainyard.dev/v1\n"));
}

TEST_F(ProgramTest, RunStartsARankForEachDeviceThatIsAskedFor) {
  const std::string file = folder_.write("job.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: devices}
spec:
  replicas: 2
  gpusPerPod: 0
  template: {spec: {containers: [{name: worker, image: none, command: [sh, -c, "echo rank $RANK of $WORLD_SIZE"]}]}}
)");
  const std::string runs = folder_.file("runs").string();
  const Outcome outcome = run({"run", file, "--dir", runs, "--devices", "3", "--auto-select-gpus"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("--devices: 3 ranks, on the CPU, in place of spec.replicas 2 and spec.gpusPerPod 0.\n"));
  EXPECT_THAT(text_of(runs + "/logs/latest/attempt-1/rank-2.log"), "rank 2 of 3\n");
}

TEST_F(ProgramTest, RunRestartsTheRanksOfAFileAsOftenAsItIsTold) {
  const Outcome never = run({"run", shell_job("exit 7"), "--dir", "never", "--max-restarts", "0"});
  EXPECT_EQ(never.exit_code, 1);
  EXPECT_THAT(never.out, HasSubstr("--max-restarts: 0 of each cause, in place of spec.restart.application.max 1 and "
                                   "spec.restart.infrastructure.max 10.\n"));
  EXPECT_THAT(never.out, HasSubstr("Failed (ApplicationBudget): exit code 7"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("never/logs/latest/attempt-2")));
  const Outcome lost = run({"run", shell_job("exit 94"), "--dir", "lost", "--max-restarts", "0"});
  EXPECT_THAT(lost.out, HasSubstr("Failed (InfrastructureBudget): exit code 94"));
  const std::string twice = shell_job("echo of $TORCHELASTIC_MAX_RESTARTS; [ $TRAINYARD_ATTEMPT = 3 ]");
  const Outcome again = run({"run", "--max-restarts=2", twice, "--dir", "twice"});
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr(" after 2 restarts\n"));
  EXPECT_THAT(text_of(folder_.file("twice/logs/latest/attempt-3/rank-0.log")), "of 2\n");
}

TEST_F(ProgramTest, RunRestartsTheRanksOfACommandWithoutItsNumberOfRanksToo) {
  const Outcome outcome = run({"run", "--max-restarts", "1", "--", "sh", "-c", "[ $TRAINYARD_ATTEMPT = 2 ]"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(ProgramTest, RunSaysHowManyRestartsThereMayBe) {
  for (const std::string max : {"-1", "1000001", "two", "1.5", "99999999999999999999"}) {
    for (const std::vector<std::string>& behind : {std::vector<std::string>{"a.yaml"}, {"--", "true"}}) {
      std::vector<std::string> arguments{"run", "--max-restarts", max};
      arguments.insert(arguments.end(), behind.begin(), behind.end());
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.exit_code, 2) << max;
      EXPECT_EQ(outcome.err,
                "error: --max-restarts: Value " + max + " not in range 0 to 1000000\nTry: trainyard run --help\n");
    }
  }
  EXPECT_EQ(run({"run", "--max-restarts", "1000000", "--", "true"}).exit_code, 0);
  EXPECT_THAT(run({"run", "--max-restarts", "2", "train.py"}).err,
              HasSubstr("put the command of the ranks after --: trainyard run --nproc 1 -- python3 train.py\n"));
}

TEST_F(ProgramTest, RunRefusesDevicesThatAreNotThere) {
  const std::string file = paths::source("examples/smoke.yaml");
  for (const auto& [devices, fault] :
       {std::pair{"1,1", "device 1 is there twice"}, {"abc", "it is not a whole number"}}) {
    const Outcome outcome = run({"run", file, std::string{"--devices="} + devices});
    EXPECT_EQ(outcome.exit_code, 2) << devices;
    EXPECT_THAT(outcome.err,
                StartsWith(std::string{"error: --devices: '"} + devices + "' does not choose devices: " + fault));
  }
  const std::vector<std::pair<std::string, std::string>> cases{
      {"1,", "error: --devices: GPU 1 is asked for, but this machine has no GPU\n"},
      {"1,3", "error: --devices: GPUs 1, 3 are asked for, but this machine has no GPU\n"},
      {"-1", "error: --devices: all GPUs are asked for, but this machine has no GPU\n"}};
  for (const auto& [devices, sentence] : cases) {
    const Outcome outcome = run({"run", file, "--devices=" + devices});
    EXPECT_EQ(outcome.exit_code, 1) << devices;
    EXPECT_THAT(outcome.err, StartsWith(sentence)) << devices;
  }
  for (const char* option : {"--devices=2", "--auto-select-gpus"}) {
    EXPECT_THAT(run({"run", file, option, "-H", "localhost:2"}).err,
                HasSubstr("--devices and --auto-select-gpus are for this machine"));
  }
  EXPECT_THAT(run({"run", file, "--devices=1,3", "--auto-select-gpus"}).err,
              HasSubstr("--auto-select-gpus chooses the GPUs itself"));
  EXPECT_THAT(run({"run", "--devices", "2", "--", "true"}).err, HasSubstr("--devices is for a FILE"));
}

TEST_F(ProgramTest, ValidateRefusesMistypedKindsAndFilesWithoutATrainingJob) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"kind: TrainingJobs", "(TrainingJobs job): kind: must be TrainingJob, got \"TrainingJobs\"\n"},
      {"kind: trainingjob", "(trainingjob job): kind: must be TrainingJob, got \"trainingjob\"\n"},
      {"spec: {}", "(no kind job): kind: must be TrainingJob, got nothing\n"}};
  for (const auto& [line, sentence] : cases) {
    const std::string file =
        folder_.write("job.yaml", "apiVersion: trainyard.dev/v1alpha1\nmetadata: {name: job}\n" + line + "\n");
    const Outcome outcome = run({"validate", file});
    EXPECT_EQ(outcome.exit_code, 1) << line;
    EXPECT_THAT(outcome.out, HasSubstr(sentence));
    EXPECT_EQ(run({"run", file}).exit_code, 1) << line;
  }
  const Outcome nothing =
      run({"validate", folder_.write("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n").string()});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_EQ(nothing.err, "error: there is no TrainingJob to check\n");
}

TEST_F(ProgramTest, ValidateJudgesEachItemOfAList) {
  const std::string file = folder_
                               .write("list.yaml", R"(apiVersion: v1
kind: List
items:
  - {apiVersion: trainyard.dev/v1alpha1, kind: TrainingJob, metadata: {name: one}, spec: {training: {model: {name: fashion_cnn}, data: {format: synthetic}}}}
  - {apiVersion: v1, kind: Secret, metadata: {name: s}}
  - {apiVersion: trainyard.dev/v1alpha1, kind: TrainingJob, metadata: {name: two}, spec: {replicas: 0}}
)")
                               .string();
  const Outcome outcome = run({"validate", file});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, StartsWith(file + ": document 1, item 1 (TrainingJob one): valid\n" + file +
                                      ": document 1, item 2 (Secret s): not checked, since it is no TrainingJob\n" +
                                      file + ": document 1, item 3 (TrainingJob two): spec"));
}

TEST_F(ProgramTest, ValidateListsAtMostTwentyFaultsOfAJob) {
  std::string job = "apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: job, finalizers: [";
  for (int item = 0; item < 300; ++item) job += "5, ";
  const std::string file = folder_.write(
      "job.yaml", job + "]}\nspec: {training: {model: {name: fashion_cnn}, data: {format: synthetic}}}\n");
  const Outcome outcome = run({"validate", file});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 21);
  EXPECT_THAT(outcome.out, testing::EndsWith("(TrainingJob job): and 280 more\n"));
}

TEST_F(ProgramTest, ValidateFindsWhatThePodsOrTheWorkerWouldBeRefusedFor) {
  const auto validate = [&](const std::string& container, const std::string& model) {
    folder_.write("job.yaml",
                  "apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: job}\n"
                  "spec: {training: {model: {name: " +
                      model + "}, data: {format: synthetic}}, template: {spec: {containers: [{" + container +
                      "}]}}}\n");
    return run({"validate", "job.yaml"});
  };
  const Outcome mistyped = validate("name: worker, resource: {limits: {cpu: 1}}", "fashion_cnn");
  EXPECT_EQ(mistyped.exit_code, 1);
  EXPECT_EQ(mistyped.out,
            "job.yaml: document 1 (TrainingJob job): spec.template.spec.containers[0].resource: unknown field; did you "
            "mean resources?\n");
  EXPECT_THAT(run({"run", "job.yaml"}).err, HasSubstr("did you mean resources?"));
  const Outcome unknown = validate("name: worker", "resnet");
  EXPECT_EQ(unknown.exit_code, 0) << "an operator's own worker image may know it";
  EXPECT_EQ(unknown.out,
            "job.yaml: document 1 (TrainingJob job): valid, but the model 'resnet' is not built in (there is: "
            "deepliif, fashion_cnn, gpt2, resnet18, resnet50): name an image, or --worker, that has it\n");
  EXPECT_EQ(validate("name: worker, image: mine", "resnet").out, "job.yaml: document 1 (TrainingJob job): valid\n");
}

TEST_F(ProgramTest, ValidateTakesGoodFilesAndNamesUnreadableOnes) {
  const std::string good = shell_job("true");
  EXPECT_EQ(run({"validate", good}).out, good + ": document 1 (TrainingJob job): valid\n");
  const Outcome outcome = run({"validate", good, "absent.yaml", folder_.write("broken.yaml", "a: [1\n").string()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("error: cannot read absent.yaml: No such file or directory\n"));
  EXPECT_THAT(outcome.err, HasSubstr("broken.yaml: "));
}

TEST_F(ProgramTest, RenderPrintsWhatTheOperatorWouldMake) {
  const std::string golden = paths::source("tests/cli/golden");
  const Outcome outcome = run({"render", golden + "/job.yaml", "--worker-image", "registry.example/worker:1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, text_of(golden + "/rendered.yaml"))
      << "if the change is meant: trainyard render tests/cli/golden/job.yaml --worker-image registry.example/worker:1 "
         ">tests/cli/golden/rendered.yaml";
}

}  // namespace
}  // namespace trainyard::cli

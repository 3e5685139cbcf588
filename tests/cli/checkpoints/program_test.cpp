#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"

/// `trainyard checkpoints` as a user runs it.
namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using fakes::text_of;
using testing::HasSubstr;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class CheckpointsProgram : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder;

  /// Runs the shell command `line` in the test's folder; $T is the program.
  Outcome run(const std::string& line) {
    const std::string command = "cd " + folder.path() + " && T=" + paths::program("trainyard") + " && { " + line +
                                "; } < /dev/null > out 2> err";
    const int status = std::system(command.c_str());
    return {.exit_code = WEXITSTATUS(status), .out = text_of(folder.file("out")), .err = text_of(folder.file("err"))};
  }
  void fill() {
    checkpoint::TestPrefix prefix{std::make_unique<storage::FileStore>(folder.path() + "/run")};
    prefix.claim(1);
    prefix.save({10, 1}, 2);
    prefix.save({20, 1}, 2);
  }
};

TEST_F(CheckpointsProgram, HelpOfEachCommandSaysItsExitCodes) {
  for (const std::string command : {"ls", "show", "verify", "get", "export", "import", "rm"}) {
    const Outcome help = run("$T checkpoints " + command + " --help");
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Exit code: 0"));
    EXPECT_THAT(help.out, HasSubstr("--endpoint"));
  }
}

TEST_F(CheckpointsProgram, WrongUsageIsExitCode2AndSaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"$T checkpoints", "error: trainyard checkpoints needs a command; there are:\n  ls  "},
      {"$T checkpoints verfy file:///run",
       "error: verfy is not a command of trainyard checkpoints; did you mean verify?\n"},
      {"$T checkpoints peek file:///run",
       "error: peek is not a command of trainyard checkpoints; there are ls, show, verify, get, export, import, rm\n"},
      {"$T checkpoints ls", "URI is required"},
      {"$T checkpoints get file:///run", "TO is required"},
      {"$T checkpoints import model.pt", "URI is required"},
      {"$T checkpoints import model.ckpt file:///run",
       "model.ckpt: unknown format; the file's name must end with .safetensors, "},
      {"$T checkpoints show file:///run --step x", "error: --step: 'x' is no step: write a whole number, such as 600"},
      {"$T checkpoints show file:///run --step -1", "--step"},
      {"$T checkpoints verify file:///run --step 1 --all", "--all"},
      {"$T checkpoints ls file:///run --output csv", "--output: csv not in {table,json,yaml}"},
      {"$T checkpoints export file:///run model.bin",
       "model.bin: unknown format; end the file's name with .safetensors or .pt"},
  };
  for (const auto& [line, sentence] : cases) {
    const Outcome outcome = run(line);
    EXPECT_EQ(outcome.exit_code, 2) << line << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(sentence)) << line;
  }
}

TEST_F(CheckpointsProgram, ListsVerifiesExportsGetsAndRemoves) {
  fill();
  const std::string uri = folder.uri() + "/run";
  EXPECT_THAT(run("$T checkpoints ls " + uri).out, HasSubstr("team/a   complete"));
  EXPECT_EQ(run("$T checkpoints verify --all " + uri).exit_code, 0);
  EXPECT_EQ(run("$T checkpoints export " + uri + " model.safetensors").exit_code, 0);
  EXPECT_EQ(run("$T checkpoints export " + uri + "/step-10/g-1 all.pt --all --only rng.").exit_code, 0);
  const Outcome imported = run("$T checkpoints import model.safetensors file://$PWD/imported");
  EXPECT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_THAT(imported.out,
              HasSubstr("5 tensors, 1.1 MiB; to begin a training with them, set training.model.weights: "));
  EXPECT_EQ(run("$T checkpoints verify file://$PWD/imported").exit_code, 0);
  EXPECT_EQ(run("$T checkpoints get " + uri + " copy --step 10").exit_code, 0);
  EXPECT_EQ(run("$T checkpoints rm " + uri + " --step 10").exit_code, 2);
  EXPECT_EQ(run("$T checkpoints rm " + uri + " --step 10 -y").exit_code, 0);
  EXPECT_EQ(run("$T checkpoints show " + uri + " --step 10").exit_code, 1);
  EXPECT_EQ(run("$T checkpoints show " + folder.uri() + "/copy -o json").exit_code, 0);
}

TEST_F(CheckpointsProgram, ARunOfATrainingThatHasEndedSaysSoBeforeAllElse) {
  checkpoint::TestPrefix prefix{
      std::make_unique<storage::FileStore>(folder.path() + "/trainyard-runs/job/checkpoints")};
  prefix.claim(1);
  prefix.save({20, 1}, 2, /*is_final=*/true);
  folder.write("job.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec: {gpusPerPod: 0, training: {model: {name: fashion_cnn}, data: {format: synthetic}, maxSteps: 20}}
)");
  const Outcome again = run("$T run job.yaml --worker /bin/true");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out,
              testing::StartsWith("Nothing is left to train: job ended at step 20. To start afresh, "
                                  "choose another folder with --dir; to train further, raise training.maxSteps.\n"
                                  "job: 1 process"));
}

// A limit on file sizes stands for a full disk, which a test cannot make.
TEST_F(CheckpointsProgram, AFullDiskIsReportedAndNothingIsLeft) {
  fill();
  for (const std::string command : {"export file://$PWD/run model.pt", "get file://$PWD/run copy"}) {
    const Outcome outcome = run("trap '' XFSZ && ulimit -f 8 && $T checkpoints " + command);
    EXPECT_EQ(outcome.exit_code, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("File too large")) << command;
    EXPECT_EQ(std::distance(fs::directory_iterator{folder.path()}, {}), 3) << command;  // The prefix, out and err.
  }
}

TEST_F(CheckpointsProgram, CredentialsAreAskedForAndNeverShown) {
  const Outcome missing = run("env -i HOME=$PWD AWS_EC2_METADATA_DISABLED=true $T checkpoints ls s3://models/run");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("no AWS credentials were found"));
  const Outcome refused =
      run("AWS_ACCESS_KEY_ID=hush AWS_SECRET_ACCESS_KEY=hush $T checkpoints ls s3://models/run --endpoint "
          "http://user:hush@127.0.0.1:1");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, testing::Not(HasSubstr("hush")));
}

TEST_F(CheckpointsProgram, CredentialsOfOtherCloudsAreAskedForToo) {
  const Outcome google = run("GOOGLE_APPLICATION_CREDENTIALS=/no/such.json $T checkpoints ls gs://models/run");
  EXPECT_EQ(google.exit_code, 1);
  EXPECT_THAT(google.err, HasSubstr("reading /no/such.json, which GOOGLE_APPLICATION_CREDENTIALS names"));
  const Outcome azure = run("env -i HOME=$PWD $T checkpoints ls az://models/run");
  EXPECT_EQ(azure.exit_code, 1);
  EXPECT_THAT(azure.err, HasSubstr("az://models/run: no storage account is named: set AZURE_STORAGE_ACCOUNT_NAME"));
}

}  // namespace
}  // namespace trainyard::cli

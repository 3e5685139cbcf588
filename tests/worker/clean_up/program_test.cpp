#include <gmock/gmock.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "checkpoint/format/claim.hpp"
#include "storage/store.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "worker/launcher/process.hpp"

namespace trainyard::clean_up {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CleanUpProgram : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = storage::open_store(uri());
    ASSERT_TRUE(opened);
    store = std::move(*opened);
    const checkpoint::Claim claim{
        .generation = 1,
        .identity = {.job = "research/smoke", .job_uid = "uid-a", .attempt = 1, .fingerprint = {}},
        .resumed_from = std::nullopt,
        .time = {},
        .nonce = "n"};
    ASSERT_TRUE(storage::put_text(*store, checkpoint::claim_key(1), to_text(claim)));
    for (const char* key :
         {"step-10/g-1/manifest.json", "step-10/g-1/rank-0.safetensors", "snapshots/g-1/step-10.json", "notes.txt"}) {
      ASSERT_TRUE(storage::put_text(*store, key, "x"));
    }
    for (const char* of_a_dead_writer : {"step-10/g-1/.tmp-0123456789abcdef", "snapshots/g-1/.tmp-fedcba9876543210"})
      std::ofstream{folder.file(std::string{"checkpoints/"} + of_a_dead_writer)} << "half";
  }
  [[nodiscard]] std::string uri() const { return folder.uri() + "/checkpoints"; }

  /// The program's exit code.
  int run(const std::string& uid) {
    const nlohmann::json spec{{"checkpoint", {{"uri", uri()}}}};
    const auto pid = launcher::start(
        {.path = paths::program("trainyard-worker"),
         .arguments = {"clean-up"},
         .environment = {"TRAINYARD_JOB=smoke", "TRAINYARD_NAMESPACE=research", "TRAINYARD_JOB_UID=" + uid,
                         "TRAINYARD_ATTEMPT=2", "TRAINYARD_SPEC=" + spec.dump(),
                         "TRAINYARD_TERMINATION_LOG=" + log().string()},
         .inherited_file = {}});
    EXPECT_TRUE(pid) << pid.error().message;
    int status = 0;
    EXPECT_EQ(waitpid(*pid, &status, 0), *pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] fs::path log() const { return folder.file("termination-log"); }
  [[nodiscard]] nlohmann::json last_words() const { return nlohmann::json::parse(fakes::text_of(log())); }
  std::vector<std::string> keys() {
    std::vector<std::string> keys;
    const auto objects = store->list("");
    for (const auto& object : *objects) keys.push_back(object.key);
    return keys;
  }

  fakes::TemporaryFolder folder;
  std::unique_ptr<storage::Store> store;
};

TEST_F(CleanUpProgram, RemovesTheJobsCheckpointsAndSaysSoInItsLastWords) {
  EXPECT_EQ(run("uid-a"), 0);
  EXPECT_EQ(keys(), std::vector<std::string>{"notes.txt"});
  EXPECT_FALSE(fs::exists(folder.file("checkpoints/step-10")));
  EXPECT_FALSE(fs::exists(folder.file("checkpoints/snapshots")));
  EXPECT_EQ(last_words().at("reason"), "Completed");
  EXPECT_EQ(last_words().at("message"),
            "nothing of the job is left in " + uri() + "/: 1 checkpoints and 1 snapshots were removed");
  EXPECT_EQ(run("uid-a"), 0) << "once more";
}

TEST_F(CleanUpProgram, CountsWhatIsInTheCheckpointsFoldersButNoWorkers) {
  ASSERT_TRUE(storage::put_text(*store, "step-10/g-1/notes.txt", "x"));
  EXPECT_EQ(run("uid-a"), 0);
  EXPECT_EQ(keys(), (std::vector<std::string>{"notes.txt", "step-10/g-1/notes.txt"}));
  EXPECT_TRUE(last_words().at("message").get<std::string>().ends_with("; 1 objects that no worker writes stay"));
}

TEST_F(CleanUpProgram, LeavesAnothersCheckpointsAlone) {
  EXPECT_EQ(run("uid-b"), 0);
  EXPECT_EQ(keys().size(), 5U);
}

TEST_F(CleanUpProgram, EndsWithASentenceWhereItIsCalledWrongly) {
  EXPECT_EQ(run(""), 93);
  EXPECT_THAT(last_words().at("message").get<std::string>(), HasSubstr("TRAINYARD_JOB_UID is not set"));
  EXPECT_EQ(keys().size(), 5U);
}

}  // namespace
}  // namespace trainyard::clean_up

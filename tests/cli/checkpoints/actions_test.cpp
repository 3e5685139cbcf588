#include "cli/checkpoints/actions.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::data_key;
using checkpoint::manifest_key;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class Actions : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder;
  checkpoint::TestPrefix prefix{std::make_unique<storage::FileStore>(folder.path() + "/run")};
  CheckpointsOptions options{.uri = folder.uri() + "/run"};

  void SetUp() override {
    prefix.claim(1);
    prefix.save({10, 1}, 2);
    prefix.save({20, 1}, 2);
  }

  template <typename Action>
  Outcome run(const Action& action) {
    std::ostringstream out;
    std::ostringstream err;
    const int exit_code = action(options, Streams{.out = out, .err = err});
    return {.exit_code = exit_code, .out = out.str(), .err = err.str()};
  }
  Outcome remove(std::optional<bool> answer) {
    return run([&](const auto& given, const Streams& streams) {
      return remove_checkpoint(given, streams, [&](const std::string&) { return answer; });
    });
  }
  [[nodiscard]] fs::path file(const std::string& name) const { return folder.file(name); }
};

TEST_F(Actions, LsShowsATableAndExactNumbersAsJson) {
  const Outcome table = run(list_checkpoints);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, MatchesRegex("STEP   GENERATION   TIME +BYTES   RANKS   JOB +STATE\n"
                                      "  10 +1   2026-11-21T[0-9:]+Z   1.1 MiB +2   team/a   complete\n"
                                      "  20 +1   2026-11-21T[0-9:]+Z   1.1 MiB +2   team/a   complete\n"));
  options.format = OutputFormat::json;
  options.uri += "/step-10/g-1/";
  const auto json = nlohmann::json::parse(run(list_checkpoints).out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["uri"], folder.uri() + "/run/step-10/g-1");
  EXPECT_EQ(json[0]["worldSize"], 2);
  EXPECT_EQ(json[0]["state"], "complete");
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator{file("run/step-10/g-1")}) bytes += entry.file_size();
  EXPECT_EQ(json[0]["bytes"], bytes);
  options.format = OutputFormat::yaml;
  EXPECT_THAT(run(list_checkpoints).out, HasSubstr("  state: complete\n  step: 10\n"));
}

TEST_F(Actions, ShowPrintsWhatIsInTheNewest) {
  const Outcome shown = run(show_checkpoint);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("/run/step-20/g-1\n"), HasSubstr("UID           uid-a\n"),
                               HasSubstr("Fingerprint   fashion\n"), HasSubstr("metrics.accuracy   0.5\n"),
                               ContainsRegex("model\\.large +BF16 +\\[1100, 512\\] +replicated +1\\.1 MiB\n")));
  options.format = OutputFormat::json;
  options.step = 10;
  const auto json = nlohmann::json::parse(run(show_checkpoint).out);
  EXPECT_EQ(json["step"], 10);
  EXPECT_EQ(json["entries"].size(), 8U);
  EXPECT_EQ(json["generation"], 1);
  EXPECT_EQ(json["job"], "team/a");
  EXPECT_EQ(json["jobUid"], "uid-a");
  EXPECT_EQ(json["fingerprint"], "fashion");
  EXPECT_TRUE(json["attempt"].is_number_integer());
  EXPECT_EQ(json["values"]["metrics"]["accuracy"], 0.5);
  const auto large =
      std::ranges::find_if(json["entries"], [](const auto& entry) { return entry["name"] == "model.large"; });
  ASSERT_NE(large, json["entries"].end());
  EXPECT_EQ(*large, nlohmann::json::parse(R"({"name": "model.large", "dtype": "BF16", "shape": [1100, 512],
                                            "placement": "replicated", "bytes": 1126400})"));
}

TEST_F(Actions, LsOfAFolderWithoutCheckpointsIsANoteAndOfAnUnknownOneAnError) {
  fs::create_directories(file("empty"));
  options.uri = folder.uri() + "/empty";
  const Outcome none = run(list_checkpoints);
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "note: there are no checkpoints under " + options.uri + "/\n");
  options.format = OutputFormat::json;
  EXPECT_EQ(run(list_checkpoints).out, "[]\n");
  options.uri = folder.uri() + "/run/step-10/g-2";
  const Outcome unknown = run(list_checkpoints);
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_EQ(unknown.err, "error: " + options.uri + ": there is no such checkpoint\n");
}

TEST_F(Actions, RmNamesInItsQuestionWhatItWouldRemove) {
  options.step = 10;
  std::string asked;
  const Outcome kept = run([&](const auto& given, const Streams& streams) {
    return remove_checkpoint(given, streams, [&](const std::string& question) {
      asked = question;
      return std::optional{false};
    });
  });
  EXPECT_EQ(asked, "Remove " + folder.uri() + "/run/step-10/g-1 (1.1 MiB, complete)?");
  EXPECT_EQ(kept.err, "nothing was removed\n");
  options.step = 20;
  options.is_forced = true;
  EXPECT_EQ(remove(true).exit_code, 0);
  EXPECT_FALSE(fs::exists(file("run/step-20/g-1/manifest.json")));
}

TEST_F(Actions, ShowAndVerifyTakeWhatIsCutOverTheRanks) {
  prefix.extend = [](checkpoint::TestState& state, std::int64_t rank, std::int64_t) {
    state.add_sharded("model.embedding", "F32", {9, 5}, 4, rank == 0 ? checkpoint::Rows{0, 2} : checkpoint::Rows{2, 9});
  };
  prefix.save({30, 1}, 2);
  EXPECT_THAT(run(show_checkpoint).out, ContainsRegex("model\\.embedding +F32 +\\[9, 5\\] +sharded +180 B\n"));
  EXPECT_EQ(run(verify_checkpoints).exit_code, 0);
}

TEST_F(Actions, VerifyNamesDamageAndIsExitCode1) {
  EXPECT_EQ(run(verify_checkpoints).exit_code, 0);
  prefix.flip(data_key(checkpoint::CheckpointId{20, 1}, 1), -1);
  const Outcome damaged = run(verify_checkpoints);
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.out, AllOf(HasSubstr("damaged: step-20/g-1/rank-1.safetensors: rng.cpu (rows 0 to 31)"),
                                 HasSubstr("step-20/g-1: DAMAGED")));
  options.step = 10;
  EXPECT_THAT(run(verify_checkpoints).out, HasSubstr("step-10/g-1: whole, 1.1 MiB read\n"));
  options.step.reset();
  options.is_all = true;
  const Outcome all = run(verify_checkpoints);
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_THAT(all.out, HasSubstr("step-10/g-1: whole"));
}

TEST_F(Actions, VerifyOfAllIsExitCode1WhicheverIsDamaged) {
  prefix.flip(data_key(checkpoint::CheckpointId{10, 1}, 1), -1);
  options.is_all = true;
  const Outcome all = run(verify_checkpoints);
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_THAT(all.out, AllOf(HasSubstr("step-10/g-1: DAMAGED"), HasSubstr("step-20/g-1: whole")));
}

TEST_F(Actions, VerifySaysTheSameToPrograms) {
  prefix.flip(data_key(checkpoint::CheckpointId{10, 1}, 1), -1);
  options.is_all = true;
  options.format = OutputFormat::json;
  const Outcome all = run(verify_checkpoints);
  EXPECT_EQ(all.exit_code, 1);
  const auto json = nlohmann::json::parse(all.out);
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["isWhole"], false);
  EXPECT_EQ(json[0]["damages"].size(), 1U);
  EXPECT_EQ(json[1]["isWhole"], true);
  EXPECT_EQ(json[1]["uri"], folder.uri() + "/run/step-20/g-1");
}

TEST_F(Actions, GetMakesAFolderAndNeverAHalfOne) {
  options.target = folder.path() + "/copy/";
  prefix.flip(data_key(checkpoint::CheckpointId{20, 1}, 1), -1);
  EXPECT_EQ(run(get_checkpoint).exit_code, 1);
  EXPECT_FALSE(fs::exists(file("copy")));
  options.step = 10;
  const Outcome got = run(get_checkpoint);
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("to resume from it, set checkpoint.uri: " + folder.uri() + "/copy\n"));
  EXPECT_THAT(run(get_checkpoint).err, HasSubstr("/copy is already there and is not an empty folder"));
  options.uri = folder.uri() + "/copy";
  options.step.reset();
  EXPECT_THAT(run(list_checkpoints).out, HasSubstr("complete"));
}

TEST_F(Actions, ExportRefusesAnExistingFileAndAnUnknownFormat) {
  options.target = file("model.bin").string();
  EXPECT_EQ(run(export_checkpoint).exit_code, 2);
  options.target = folder.write("model.pt", "mine").string();
  const Outcome refused = run(export_checkpoint);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("model.pt is already there: name another file, or give --force"));
  EXPECT_EQ(fakes::text_of(options.target), "mine");
  options.is_forced = true;
  const Outcome replaced = run(export_checkpoint);
  EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_THAT(fakes::text_of(options.target), testing::StartsWith("PK"));
}

TEST_F(Actions, ExportSaysWhereElementsAreNotFinite) {
  options.target = file("large.pt").string();
  options.only = "large";  // Its bytes are noise.
  const Outcome spoiled = run(export_checkpoint);
  EXPECT_EQ(spoiled.exit_code, 0);
  EXPECT_THAT(spoiled.err, testing::MatchesRegex("note: numbers are infinite or NaN in 1 of the exported tensors, "
                                                 "such as large \\([1-9][0-9]* of its numbers\\). .*earlier step\n"));
  options.target = file("steps.pt").string();
  options.only = "steps";
  EXPECT_EQ(run(export_checkpoint).err, "");
}

TEST_F(Actions, ExportLeavesNothingOfADamagedCheckpoint) {
  options.target = file("model.safetensors").string();
  prefix.damage(data_key(checkpoint::CheckpointId{20, 1}, 0),
                [](std::vector<std::byte>& content) { content[content.size() / 2] ^= std::byte{1}; });
  const Outcome failed = run(export_checkpoint);
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr("rank-0.safetensors: the checksum of model."));
  EXPECT_EQ(std::distance(fs::directory_iterator{folder.path()}, {}), 1);  // The prefix alone.
}

TEST_F(Actions, FallBackToTheOneBeforeWithANoteWhereAFileIsTorn) {
  prefix.cut(data_key(checkpoint::CheckpointId{20, 1}, 0), 1);
  options.target = file("model.pt").string();
  const Outcome exported = run(export_checkpoint);
  EXPECT_EQ(exported.exit_code, 0);
  EXPECT_THAT(exported.err, HasSubstr("note: step-20/g-1 is skipped: the file of rank 0 has"));
  EXPECT_THAT(exported.out, HasSubstr("step 10: "));
}

TEST_F(Actions, RmAsksAndKeepsTheNewest) {
  EXPECT_EQ(remove(true).exit_code, 1);
  options.step = 20;
  EXPECT_THAT(remove(true).err, HasSubstr("step-20/g-1 is the newest checkpoint"));
  options.step = 10;
  EXPECT_EQ(remove(false).exit_code, 1);
  const Outcome nobody = remove(std::nullopt);
  EXPECT_EQ(nobody.exit_code, 2);
  EXPECT_THAT(nobody.err, HasSubstr("add --yes"));
  EXPECT_TRUE(fs::exists(file("run/step-10/g-1/manifest.json")));
  options.is_confirmed = true;
  folder.write("run/step-10/g-1/notes.txt", "mine");
  const Outcome removed = remove(std::nullopt);
  EXPECT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_THAT(removed.out, HasSubstr("/run/step-10/g-1: 5 objects"));
  EXPECT_THAT(removed.err, HasSubstr("notes.txt was written by no worker and is left in place"));
  EXPECT_TRUE(fs::exists(file("run/step-10/g-1/notes.txt")));
  EXPECT_TRUE(fs::exists(file("run/step-20/g-1/manifest.json")));
}

TEST_F(Actions, SayWhatIsNotThereOrCannotBeRead) {
  struct Case {
    std::string uri;
    std::string sentence;
  };
  const std::vector<Case> cases = {{folder.uri() + "/ran", "there is no folder " + folder.path() + "/ran"},
                                   {"/run", "'/run' is a folder and not a URI: write file:///run"},
                                   {folder.uri() + "/run/step-30/g-1", "there is no"},
                                   {"file:///proc/version/run", "there is no folder /proc/version/run"},
                                   {folder.uri() + "/loop", "Too many levels of symbolic links"}};
  fs::create_symlink("loop", file("loop"));
  for (const auto& [uri, sentence] : cases) {
    options.uri = uri;
    for (const auto& action : {list_checkpoints, show_checkpoint, verify_checkpoints}) {
      const Outcome outcome = run(action);
      EXPECT_EQ(outcome.exit_code, 1) << uri;
      EXPECT_THAT(outcome.err, HasSubstr(sentence));
      EXPECT_THAT(outcome.err, testing::StartsWith("error: "));
    }
  }
}

TEST_F(Actions, GetAndExportThatAreStoppedAnywhereLeaveNothing) {
  using Action = int (*)(const CheckpointsOptions&, const Streams&);
  const std::vector<std::pair<Action, std::string>> cases = {{export_checkpoint, "model.pt"}, {get_checkpoint, "copy"}};
  for (const auto& [action, target] : cases) {
    options.target = file(target).string();
    for (int calls_max = 0; !fs::exists(options.target); ++calls_max) {
      int calls = 0;
      options.is_stopped = [&] { return calls++ == calls_max; };
      const Outcome outcome = run(action);
      if (outcome.exit_code == 0) {
        EXPECT_GT(calls_max, 5) << target;  // Five read what is there, the others the data.
        continue;
      }
      EXPECT_EQ(outcome.exit_code, 130) << calls_max;
      EXPECT_THAT(outcome.err, HasSubstr("stopped by a signal"));
      EXPECT_EQ(std::distance(fs::directory_iterator{folder.path()}, {}), 1) << calls_max;  // The prefix alone.
    }
    fs::remove_all(options.target);
  }
}

TEST_F(Actions, ImportNeedsAPlaceThatCanBeWrittenTo) {
  options.target = file("model.pt").string();
  ASSERT_EQ(run(export_checkpoint).exit_code, 0);
  options.source = options.target;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {folder.uri() + "/new/step-0/g-1", "/new/step-0/g-1 is the URI of one checkpoint: give the folder or prefix"},
      {"https://models.example.com/new", "https://models.example.com/new can only be read: name an s3:// or file://"},
      {folder.uri() + "/run", "there are checkpoints under " + folder.uri() + "/run"}};
  for (const auto& [uri, sentence] : cases) {
    options.uri = uri;
    const Outcome outcome = run(import_checkpoint);
    EXPECT_EQ(outcome.exit_code, 1) << uri;
    EXPECT_THAT(outcome.err, HasSubstr(sentence));
  }
}

TEST_F(Actions, ImportThatIsStoppedAnywhereSaysSo) {
  options.target = options.source = file("model.pt").string();
  ASSERT_EQ(run(export_checkpoint).exit_code, 0);
  options.uri = folder.uri() + "/imported";
  Outcome outcome;
  for (int calls_max = 0; outcome.exit_code != 0; ++calls_max) {
    int calls = 0;
    options.is_stopped = [&] { return calls++ >= calls_max; };
    fs::remove_all(file("imported"));
    outcome = run(import_checkpoint);
    if (outcome.exit_code == 0) {
      EXPECT_GT(calls_max, 5) << "each call to the store is a place to stop at";
    } else {
      ASSERT_EQ(outcome.exit_code, 130) << outcome.err;
    }
  }
}

TEST_F(Actions, AMissingManifestIsUnfinished) {
  ASSERT_TRUE(prefix.store().remove(manifest_key({20, 1})));
  EXPECT_THAT(run(list_checkpoints).out, HasSubstr("team/a   unfinished\n"));
  options.step = 20;
  EXPECT_THAT(run(verify_checkpoints).out, HasSubstr("manifest.json is missing"));
  options.target = file("model.pt").string();
  EXPECT_THAT(run(export_checkpoint).err, HasSubstr("step-20/g-1 is unfinished"));
}

}  // namespace
}  // namespace trainyard::cli

#include "cli/snapshots/command.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/checkpoints/actions.hpp"
#include "tests/cli/snapshots/shelf_folder.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class SnapshotActions : public ShelfFolder {
 protected:
  template <typename Action, typename Options>
  Outcome run_on(const Action& action, const Options& given) {
    std::ostringstream out;
    std::ostringstream err;
    const int exit_code = action(given, Streams{.out = out, .err = err});
    return {.exit_code = exit_code, .out = out.str(), .err = err.str()};
  }
  template <typename Action>
  Outcome run(const Action& action) {
    options.uri = options.uri.empty() ? uri() : options.uri;
    return run_on(action, options);
  }

  SnapshotsOptions options;
};

TEST_F(SnapshotActions, LsShowsATableAndExactNumbersAsJson) {
  const Outcome listed = run(list_snapshots);
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, MatchesRegex("STEP   GENERATION +BYTES   STATE\n"
                                       "  10 +1 +[0-9]+ B   current\n"
                                       "  20 +1 +[0-9]+ B   current\n"
                                       "  30 +1 +[0-9]+ B   superseded\n"
                                       "  30 +2 +[0-9]+ B   current\n"));
  options.format = OutputFormat::json;
  const auto json = nlohmann::json::parse(run(list_snapshots).out);
  ASSERT_EQ(json.size(), 4U);
  EXPECT_EQ(json[2]["uri"], uri() + "/snapshots/g-1/step-30.json");
  EXPECT_EQ(json[2]["state"], "superseded");
  EXPECT_EQ(json[2]["bytes"], fs::file_size(folder.file("run/snapshots/g-1/step-30.json")));
  options.format = OutputFormat::yaml;
  EXPECT_THAT(run(list_snapshots).out, HasSubstr("  generation: 1\n  state: superseded\n  step: 30\n"));
}

TEST_F(SnapshotActions, LsSaysUpToWhichStepASnapshotIsCurrent) {
  prefix.claim(3, checkpoint::CheckpointId{15, 1});
  EXPECT_THAT(run(list_snapshots).out, HasSubstr("B   current up to step 15\n"));
}

TEST_F(SnapshotActions, ReportMissingObjectsInOneSentence) {
  options.uri = folder.uri() + "/nowhere";
  EXPECT_THAT(run(list_snapshots).err, HasSubstr("there is no folder"));
  fs::create_directories(folder.file("empty"));
  options.uri = folder.uri() + "/empty";
  const Outcome none = run(list_snapshots);
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_THAT(none.err, HasSubstr("note: there are no snapshots under "));
  EXPECT_EQ(run(print_history).out, "step,name,over,value,generation\n");
}

TEST_F(SnapshotActions, HistoryPrintsTheCurrentValues) {
  const Outcome history = run(print_history);
  EXPECT_EQ(history.exit_code, 0) << history.err;
  EXPECT_EQ(history.out,
            "step,name,over,value,generation\n"
            "10,loss,steps,1,1\n"
            "20,loss,steps,1,1\n"
            "30,loss,steps,2,2\n");
}

TEST_F(SnapshotActions, HistoryLeavesOutWhatIsDamagedAndNamesIt) {
  prefix.flip("snapshots/g-1/step-10.json", 20);
  const Outcome history = run(print_history);
  EXPECT_EQ(history.exit_code, 1);
  EXPECT_THAT(history.err, HasSubstr("note: left out: " + uri() + "/snapshots/g-1/step-10.json: "));
  EXPECT_THAT(history.out, StartsWith("step,name,over,value,generation\n20,loss"));
}

TEST_F(SnapshotActions, GetMakesAFolderOfPngFilesAndMetrics) {
  options.step = 30;
  options.target = folder.path() + "/out/";
  const Outcome got = run(get_snapshot);
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(got.out, "step 30: metrics.csv (1 values) and 1 images in " + options.target + "\n");
  EXPECT_EQ(fakes::text_of(folder.file("out/metrics.csv")), "step,name,over,value\n30,loss,steps,2\n");
  EXPECT_THAT(fakes::text_of(folder.file("out/val_a.png")), StartsWith("\x89PNG"));
  const Outcome again = run(get_snapshot);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("/out is already there and is not an empty folder"));
}

TEST_F(SnapshotActions, GetOfOneThatDoesNotCountSaysSo) {
  ASSERT_TRUE(prefix.store().remove("snapshots/g-2/step-30.json"));
  options.step = 30;
  options.target = folder.path() + "/out";
  const Outcome got = run(get_snapshot);
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(got.err,
            "note: this snapshot is of generation 1 and is superseded: a later run resumed from an earlier step\n");
}

TEST_F(SnapshotActions, GetNamesWhatIsBesideAMissingOneAndLeavesNothing) {
  const std::vector<std::pair<std::int64_t, std::string>> cases = {
      {5, "there is no snapshot of step 5; the first one is of step 10"},
      {15, "there is no snapshot of step 15; the nearest are of steps 10 and 20"},
      {99, "there is no snapshot of step 99; the last one is of step 30"}};
  options.target = folder.path() + "/out";
  for (const auto& [step, sentence] : cases) {
    options.step = step;
    const Outcome got = run(get_snapshot);
    EXPECT_EQ(got.exit_code, 1);
    EXPECT_THAT(got.err, HasSubstr(sentence));
  }
  options.step = 10;
  prefix.flip("snapshots/g-1/step-10.json", 20);
  EXPECT_EQ(run(get_snapshot).exit_code, 1);
  EXPECT_FALSE(fs::exists(options.target));
}

TEST_F(SnapshotActions, EndWhenAskedToStop) {
  options.is_stopped = [] { return true; };
  EXPECT_EQ(run(print_history).exit_code, 130);
}

TEST_F(SnapshotActions, AreNoBusinessOfCheckpointCommands) {
  CheckpointsOptions given{.uri = uri()};
  const Outcome listed = run_on(list_checkpoints, given);
  EXPECT_THAT(listed.out, MatchesRegex("STEP .*\n  20 +1   [^\n]*complete\n"));
  prefix.save({40, 2});
  given.step = 20;
  given.is_confirmed = true;
  const Outcome removed = run_on(
      [](const auto& each, const Streams& streams) {
        return remove_checkpoint(each, streams, [](const std::string&) { return std::nullopt; });
      },
      given);
  EXPECT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_EQ(prefix.store().list("snapshots/").value().size(), 4U);
}

}  // namespace
}  // namespace trainyard::cli

#include "cli/nothing_left.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using checkpoint::Listed;
using checkpoint::Standing;

nlohmann::json job_that_trains(const std::string& training, const std::string& resume = "auto") {
  nlohmann::json job = {{"metadata", {{"name", "smoke"}}},
                        {"spec",
                         {{"training", nlohmann::json::parse(training)},
                          {"checkpoint", {{"uri", "file:///runs/smoke"}, {"resume", resume}}}}}};
  job["spec"]["training"].update({{"model", {{"name", "fashion_cnn"}}}, {"data", {{"format", "synthetic"}}}});
  return job;
}

/// A checkpoint of step 20, after two epochs.
Listed a_checkpoint(Standing standing = Standing::final) {
  Listed listed{.id = {.step = 20, .generation = 1}, .standing = standing, .is_candidate = true, .manifest = {}};
  listed.manifest.emplace().values = {{"epoch", 2}, {"step", 20}};
  return listed;
}

TEST(NothingLeft, IsReportedForATrainingThatHasEnded) {
  const Listed end = a_checkpoint();
  EXPECT_EQ(nothing_left_line(job_that_trains(R"({"maxSteps": 20})"), &end, true),
            "Nothing is left to train: smoke ended at step 20. To start afresh, choose another folder with --dir; to "
            "train further, raise training.maxSteps.");
  EXPECT_EQ(nothing_left_line(job_that_trains(R"({"epochs": 2})"), &end, false),
            "Nothing is left to train: smoke ended at step 20. To start afresh, set checkpoint.resume: none; to "
            "train further, raise training.epochs.");
  EXPECT_NE(nothing_left_line(job_that_trains("{}"), &end, true), "") << "without an end in the job it is one epoch";
}

TEST(NothingLeft, IsNotReportedIfTheJobTrains) {
  const Listed end = a_checkpoint();
  const Listed cut = a_checkpoint(Standing::complete);
  const std::string twenty = R"({"maxSteps": 20})";
  EXPECT_EQ(nothing_left_line(job_that_trains(twenty), nullptr, true), "") << "no checkpoint";
  EXPECT_EQ(nothing_left_line(job_that_trains(twenty), &cut, true), "") << "a run that was cut short";
  EXPECT_EQ(nothing_left_line(job_that_trains(twenty, "none"), &end, true), "") << "afresh";
  EXPECT_EQ(nothing_left_line(job_that_trains(R"({"maxSteps": 21})"), &end, true), "") << "more steps";
  EXPECT_EQ(nothing_left_line(job_that_trains(R"({"epochs": 3})"), &end, true), "") << "more epochs";
  nlohmann::json other = job_that_trains(twenty);
  other["spec"].erase("training");
  EXPECT_EQ(nothing_left_line(other, &end, true), "") << "a program of another kind";
}

TEST(ReadNothingLeftLine, ReadsTheFolderOfTheJobsCheckpoints) {
  const fakes::TemporaryFolder folder;
  nlohmann::json job = job_that_trains(R"({"maxSteps": 20})");
  job["spec"]["checkpoint"]["uri"] = folder.uri() + "/run";
  EXPECT_EQ(read_nothing_left_line(job, ""), "") << "there is no folder";
  checkpoint::TestPrefix prefix{std::make_unique<storage::FileStore>(folder.path() + "/run")};
  prefix.claim(1);
  prefix.save({20, 1}, 2);
  EXPECT_EQ(read_nothing_left_line(job, ""), "") << "the run that saved it was cut short";
  prefix.save({20, 1}, 2, /*is_final=*/true);
  EXPECT_EQ(read_nothing_left_line(job, folder.path() + "/run"),
            "Nothing is left to train: smoke ended at step 20. To start afresh, choose another folder with --dir; to "
            "train further, raise training.maxSteps.");
  EXPECT_NE(read_nothing_left_line(job, "/other"), read_nothing_left_line(job, folder.path() + "/run"))
      << "--dir would change nothing";
  nlohmann::json afresh = job;
  afresh["spec"]["checkpoint"]["resume"] = "none";
  EXPECT_EQ(read_nothing_left_line(afresh, ""), "");
  job["spec"]["checkpoint"]["uri"] = "s3://models/run";
  EXPECT_EQ(read_nothing_left_line(job, ""), "") << "storage elsewhere is the ranks' to read";
}

TEST(ReadNothingLeftLine, LeavesAFolderThatCannotBeReadToTheRanks) {
  const fakes::TemporaryFolder folder;
  nlohmann::json job = job_that_trains(R"({"maxSteps": 20})");
  checkpoint::TestPrefix prefix{std::make_unique<storage::FileStore>(folder.path() + "/run")};
  prefix.claim(1);
  prefix.save({20, 1}, 2, /*is_final=*/true);
  job["spec"]["checkpoint"]["uri"] = folder.uri() + "/run/../run";  // A folder that is there, but no URI of a store.
  EXPECT_EQ(read_nothing_left_line(job, ""), "");
  job["spec"]["checkpoint"]["uri"] = folder.uri() + "/run";
  EXPECT_NE(read_nothing_left_line(job, ""), "");
}

}  // namespace
}  // namespace trainyard::cli

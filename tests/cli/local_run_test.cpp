#include "cli/local_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_folder.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using api::Phase;
using api::TrainingJobStatus;

const Time new_year{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

TrainingJobStatus a_status(Phase phase) {
  TrainingJobStatus status;
  status.phase = phase;
  status.attempt = 2;
  return status;
}

TEST(CompactTime, IsReadAsItIsWritten) {
  const Time time = new_year + 36'123'456ms;
  EXPECT_EQ(parse_compact_time(compact_time(time)), time);
  for (const std::string text : {"", "latest", "20260101T000000", "20260101T000000.12x", "20261301T000000.000"})
    EXPECT_FALSE(parse_compact_time(text)) << text;
}

TEST(LocalRun, IsReadWithTheStatusThatTheRunWroteLast) {
  const fakes::TemporaryFolder parent;
  const auto folder = RunFolder::open(parent.file("job"), new_year);
  ASSERT_TRUE(folder) << folder.error().message;
  LocalRun expected{.name = "job",
                    .folder = parent.file("job"),
                    .logs = folder->logs(),
                    .start = new_year,
                    .is_in_progress = true,
                    .status = {}};
  EXPECT_EQ(read_local_run(parent.path() + "/job"), expected);
  ASSERT_TRUE(write_run_status(folder->logs(), a_status(Phase::starting)));
  ASSERT_TRUE(write_run_status(folder->logs(), a_status(Phase::running)));
  expected.status = a_status(Phase::running);
  EXPECT_EQ(read_local_run(parent.path() + "/job/"), expected);
}

TEST(LocalRun, KnowsNothingOfTheRunBeforeIt) {
  const fakes::TemporaryFolder parent;
  {
    const auto first = RunFolder::open(parent.path(), new_year);
    ASSERT_TRUE(first && write_run_status(first->logs(), a_status(Phase::succeeded)));
  }
  const auto second = RunFolder::open(parent.path(), new_year + 1s);
  ASSERT_TRUE(second);
  EXPECT_EQ(phase_of(*read_local_run(parent.path())), "Pending");
}

TEST(LocalRun, OfAFolderWithoutRunsIsNotFound) {
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(read_local_run(folder.path()).error(),
            (Error{ErrorKind::not_found, "no run has used the folder " + folder.path(), {}}));
}

TEST(LocalRun, OfADamagedStatusIsAnErrorThatNamesTheFile) {
  for (const std::string text : {R"({"phase": "Runn)", "[]", R"({"attempt": "two"})"}) {
    const fakes::TemporaryFolder parent;
    const auto folder = RunFolder::open(parent.path(), new_year);
    ASSERT_TRUE(folder);
    parent.write("logs/latest/status.json", text);
    const auto run = read_local_run(parent.path());
    ASSERT_FALSE(run) << text;
    EXPECT_EQ(run.error().message, "the status file " + (folder->logs() / "status.json").string() + " is damaged");
  }
}

TEST(PhaseOfARun, IsNeverRunningOnceItsProcessIsGone) {
  const auto run = [](bool is_in_progress, std::optional<TrainingJobStatus> status) {
    return LocalRun{.is_in_progress = is_in_progress, .status = std::move(status)};
  };
  const std::vector<std::pair<LocalRun, std::string>> cases{
      {run(true, {}), "Pending"},
      {run(true, a_status(Phase::none)), "Pending"},
      {run(true, a_status(Phase::running)), "Running"},
      {run(true, a_status(Phase::succeeded)), "Succeeded"},
      {run(false, {}), "Ended"},
      {run(false, a_status(Phase::none)), "Interrupted"},
      {run(false, a_status(Phase::running)), "Interrupted"},
      {run(false, a_status(Phase::suspending)), "Interrupted"},
      {run(false, a_status(Phase::suspended)), "Suspended"},
      {run(false, a_status(Phase::succeeded)), "Succeeded"},
      {run(false, a_status(Phase::failed)), "Failed"},
  };
  for (const auto& [given, phase] : cases) EXPECT_EQ(phase_of(given), phase) << given.is_in_progress;
}

TEST(RunFolders, AreThoseThatRunsHaveWorkedIn) {
  const fakes::TemporaryFolder parent;
  for (const std::string name : {"two", "one"}) ASSERT_TRUE(RunFolder::open(parent.file(name), new_year));
  fs::create_directories(parent.file("mine/logs"));
  parent.write("notes", "");
  EXPECT_EQ(run_folders_in(parent.path()), (std::vector<fs::path>{parent.file("one"), parent.file("two")}));
  EXPECT_EQ(run_folders_in(parent.file("one")), std::vector<fs::path>{parent.file("one")});
  EXPECT_EQ(run_folders_in(parent.file("nowhere")), std::vector<fs::path>{});
}

}  // namespace
}  // namespace trainyard::cli

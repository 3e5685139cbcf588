#include "cli/run_folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

const Time today{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

TEST(RunFolder, GivesEachRunLogsOfItsOwnAndTheNewestAName) {
  const fakes::TemporaryFolder parent;
  const fs::path path = parent.file("a/b");
  {
    const auto first = RunFolder::open(path, today);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->logs(), path / "logs" / "20260101T000000.000");
    EXPECT_EQ(RunFolder::checkpoints_in(path), path / "checkpoints");
  }
  const auto second = RunFolder::open(path, today + 1s);
  ASSERT_TRUE(second);
  EXPECT_TRUE(fs::is_directory(path / "logs" / "20260101T000000.000"));
  EXPECT_EQ(fs::read_symlink(path / "logs" / "latest"), "20260101T000001.000");
}

TEST(RunFolder, OpensAfterARunThatWasKilledBeforeItsLogsHadTheName) {
  const fakes::TemporaryFolder parent;
  const fs::path path = parent.file("run");
  fs::create_directories(path / "logs");
  fs::create_directory_symlink("of the killed run", path / "logs" / ".latest");
  const auto opened = RunFolder::open(path, today);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(fs::read_symlink(path / "logs" / "latest"), "20260101T000000.000");
  EXPECT_FALSE(fs::is_symlink(path / "logs" / ".latest"));
}

TEST(RunFolder, IsTheFirstOfItsNameThatIsFree) {
  const fakes::TemporaryFolder parent;
  const fs::path path = parent.file("run");
  const auto first = RunFolder::open_free(path, today);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->path(), path);
  {
    const auto second = RunFolder::open_free(path, today);
    const auto third = RunFolder::open_free(path, today);
    ASSERT_TRUE(second && third);
    EXPECT_EQ(second->path(), parent.file("run-2"));
    EXPECT_EQ(third->path(), parent.file("run-3"));
  }
  const auto again = RunFolder::open_free(path, today);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->path(), parent.file("run-2")) << "its run has ended";
  parent.write("file", "");
  EXPECT_EQ(RunFolder::open_free(parent.file("file"), today).error().kind, ErrorKind::io);
}

TEST(RunFolder, HoldsOneRunAtATime) {
  const fakes::TemporaryFolder parent;
  const fs::path path = parent.file("run");
  EXPECT_FALSE(is_run_in_progress(path));
  {
    const auto first = RunFolder::open(path, today);
    ASSERT_TRUE(first);
    EXPECT_TRUE(is_run_in_progress(path));
    const auto second = RunFolder::open(path, today);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::conflict);
    EXPECT_THAT(second.error().message,
                testing::StartsWith("another `trainyard run` uses the folder " + path.string()));
  }
  EXPECT_FALSE(is_run_in_progress(path));
  EXPECT_TRUE(RunFolder::open(path, today));
}

TEST(RunFolder, DoesNotTakeAnotherLookAtItForARunInProgress) {
  const fakes::TemporaryFolder parent;
  const fs::path path = parent.file("run");
  ASSERT_TRUE(RunFolder::open(path, today));
  const FileDescriptor other_look{::open((path / ".lock").c_str(), O_RDONLY | O_CLOEXEC)};
  ASSERT_EQ(::flock(other_look.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_FALSE(is_run_in_progress(path));
}

TEST(RunFolder, SaysWhyAFolderCannotBeMade) {
  const fakes::TemporaryFolder parent;
  const fs::path file = parent.write("file", "");
  const auto folder = RunFolder::open(file / "run", today);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error(),
            (Error{ErrorKind::io, "cannot create the folder " + (file / "run").string() + ": Not a directory"}));
}

}  // namespace
}  // namespace trainyard::cli

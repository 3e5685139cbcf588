// A process that SIGKILL ends in any call by which it changes a folder of snapshots.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "checkpoint/snapshot/history.hpp"
#include "checkpoint/snapshot/recorder.hpp"
#include "storage/file_store.hpp"
#include "tests/checkpoint/snapshot/unencoded_snapshots.hpp"
#include "tests/fakes/kill_points.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::snapshot {
namespace {

constexpr int snapshot_count = 4;

// Writes a byte into `pipe` for each snapshot that is acknowledged.
void record_all(const std::string& root, int pipe) {
  const SystemClock clock;
  Recorder recorder{std::make_unique<storage::FileStore>(root), clock};
  for (std::int64_t step = 1; step <= snapshot_count; ++step) {
    UnencodedSnapshot unencoded = an_unencoded(step);
    unencoded.images = {an_image("a", step)};
    recorder.record(unencoded);
    if (!recorder.finish(std::chrono::minutes{1}) || ::write(pipe, "+", 1) != 1) ::_exit(1);
  }
}

// Records in a process of its own, which is killed at point `fatal`. Returns how many snapshots it reported.
// Sets `is_killed` when the process came that far.
std::int64_t record_until_killed(const std::string& root, int fatal, bool& is_killed) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    fakes::decide_file_calls(fakes::killing_at(fatal));
    record_all(root, ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::int64_t written = 0;
  for (char byte = 0; ::read(ends[0], &byte, 1) == 1;) ++written;
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
      << "status " << status;
  is_killed = WIFSIGNALED(status);
  return written;
}

TEST(SnapshotsInAFolder, AreCompleteOrAbsentWhereverTheirWriterIsKilled) {
  const fakes::TemporaryFolder folder;
  fakes::decide_file_calls(fakes::killing_at(0));
  int points = 0;
  for (bool is_killed = true; is_killed; ++points) {
    SCOPED_TRACE(testing::Message() << "killed at point " << points + 1);
    const std::string root = folder.path() + "/" + std::to_string(points);
    const std::int64_t written = record_until_killed(root, points + 1, is_killed);
    storage::FileStore store{root};
    const auto shelf = list_snapshots(store);
    ASSERT_TRUE(shelf) << shelf.error().message;
    const auto count = static_cast<std::int64_t>(shelf->snapshots.size());
    ASSERT_TRUE(count == written || count == written + 1) << count << " after " << written;
    for (std::int64_t step = 1; step <= count; ++step) {
      const auto read = read_snapshot(store, {.step = step, .generation = 1});
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->points, std::vector{a_loss(step)});
      EXPECT_EQ(read->images.size(), 1U);
    }
  }
  fakes::decide_file_calls(nullptr);
  EXPECT_GT(points, 20);
}

}  // namespace
}  // namespace trainyard::snapshot

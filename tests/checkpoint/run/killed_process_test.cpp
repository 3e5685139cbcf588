// A process that SIGKILL ends in any call by which it changes a folder of checkpoints.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/run/superseded.hpp"
#include "storage/file_store.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/file_calls.hpp"
#include "tests/fakes/kill_points.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::checkpoint {
namespace {

using fakes::killing_at;

constexpr std::int64_t world_size = 2;

// The steps that a process reported before it was killed.
class Report {
 public:
  Report()
      : step_{static_cast<std::atomic<std::int64_t>*>(::mmap(
            nullptr, sizeof(std::atomic<std::int64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))} {
    std::construct_at(step_, 0);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  ~Report() { ::munmap(step_, sizeof *step_); }

  void say(std::int64_t step) { *step_ = step; }
  [[nodiscard]] std::int64_t saved_step() const { return *step_; }

 private:
  std::atomic<std::int64_t>* step_;  // Shared with the process.
};

class AFolderOfCheckpoints : public testing::Test {
 protected:
  void SetUp() override { fakes::decide_file_calls(killing_at(0)); }
  void TearDown() override { fakes::decide_file_calls(nullptr); }

  void on_ranks(const std::string& root, std::int64_t attempt, const std::function<void(TestRun&)>& rank_main) {
    fakes::ThreadGroup group{world_size};
    group.run([&](Communicator& communicator) {
      TestRun run{std::make_unique<storage::FileStore>(root)};
      run.communicator = &communicator;
      run.large_rows = 60;  // 64 KiB in all.
      rank_main(run.as_attempt(attempt));
    });
  }

  // In a process of its own: saves until it is killed. False when it was not.
  bool is_killed(const std::string& root, int fatal, Report& report) {
    const pid_t child = ::fork();
    if (child == 0) {
      fakes::decide_file_calls(killing_at(fatal));
      on_ranks(root, 1, [&](TestRun& run) {
        if (!run.restore()) ::_exit(1);
        for (std::int64_t step = 10; step <= 60; step += 10) {
          if (!run.save(step)) ::_exit(1);
          if (run.communicator->rank() == 0) report.say(step);
        }
        if (!run.end()) ::_exit(1);
      });
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        << "status " << status;
    return WIFSIGNALED(status);
  }

  void expect_the_next_resumes(const std::string& root, std::int64_t saved_step) {
    std::atomic<std::int64_t> next_step = 0;
    on_ranks(root, 2, [&](TestRun& run) {
      const auto restored = run.restore();
      ASSERT_TRUE(restored) << restored.error().message;
      const std::int64_t step = *restored ? (*restored)->step : 0;
      ASSERT_TRUE(step == saved_step || step == saved_step + 10) << step << " after " << saved_step;
      ASSERT_TRUE(step == 0 || run.holds_state_after(step));
      next_step = step + 10;
      const auto saved = run.save(step + 10);
      ASSERT_TRUE(saved) << saved.error().message;
    });
    on_ranks(root, 3, [&](TestRun& run) {
      const auto restored = run.restore();
      ASSERT_TRUE(restored && *restored);
      ASSERT_EQ((*restored)->step, next_step.load());
      ASSERT_TRUE(run.holds_state_after(next_step));
      run.clock.advance(superseded_grace);
      ASSERT_TRUE(run.save(next_step + 10));
    });
    // That save removed what the killed process had left half done.
    storage::FileStore store{root};
    const auto listed = store.list("step-");
    ASSERT_TRUE(listed);
    for (const auto& object : *listed) {
      const auto id = parse_checkpoint_key(object.key);
      EXPECT_TRUE(id && storage::get_text(store, manifest_key(*id))) << object.key;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator{root}) {
      const bool is_claim = entry.path().parent_path().filename() == "generations";
      EXPECT_TRUE(is_claim || !entry.path().filename().native().starts_with('.')) << entry.path();
    }
  }

  fakes::TemporaryFolder folder;
};

TEST_F(AFolderOfCheckpoints, HoldsTheNewestCompleteOneWhereverItsWriterIsKilled) {
  int points = 0;
  for (bool has_died = true; has_died; ++points) {
    SCOPED_TRACE(testing::Message() << "killed at point " << points + 1);
    const std::string root = folder.path() + "/" + std::to_string(points);
    Report report;
    has_died = is_killed(root, points + 1, report);
    expect_the_next_resumes(root, report.saved_step());
    if (HasFailure()) return;
    std::filesystem::remove_all(root);
  }
  EXPECT_GT(points, 150);
}

}  // namespace
}  // namespace trainyard::checkpoint

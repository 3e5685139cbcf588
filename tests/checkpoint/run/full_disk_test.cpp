// A folder whose disk or quota is full, or that fails, at any call; and a real file system that is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include "storage/file_store.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/file_calls.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/skips.hpp"

namespace trainyard::checkpoint {
namespace {

using fakes::FileCall;
using fakes::FileFate;
using testing::HasSubstr;

struct Refusal {
  int error_number;
  std::string_view says;
};

constexpr Refusal refusals[] = {
    {ENOSPC, "No space left on device. Free space there, or keep fewer checkpoints"},
    {EDQUOT, "Disk quota exceeded. Raise the quota, or keep fewer checkpoints"},
    {EIO, "Input/output error"},
};

// Skips syncs: bytes that are not synced outlive a process, but no crash of the machine.
FileFate skip_syncs(const FileCall& call) {
  return {.kind = call.name == "fsync" ? FileFate::Kind::skip : FileFate::Kind::done};
}

// Says if a call was refused, and what came before.
struct Met {
  bool is_refused = false;
  bool has_renamed = false;  // Some file had got its name by then.
};

// Refuses call number `fatal` of the calls that need space or may be the first to learn that there is none.
std::function<FileFate(const FileCall&)> refusing_at(int fatal, int error_number, Met& met) {
  met = {};
  return [fatal, error_number, &met, call_count = 0](const FileCall& call) mutable -> FileFate {
    const bool needs_space = call.name != "unlink" && call.name != "rmdir" && call.name != "fstatat";
    if (needs_space && ++call_count == fatal) {
      met.is_refused = true;
      return {.kind = FileFate::Kind::fail, .error_number = error_number};
    }
    if (!met.is_refused && call.name == "rename") met.has_renamed = true;
    return skip_syncs(call);
  };
}

bool has_temporary_files(const std::string& root) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator{root}) {
    if (entry.path().filename().native().starts_with('.')) return true;
  }
  return false;
}

std::unique_ptr<TestRun> run_in(const std::string& root, std::int64_t attempt) {
  auto run = std::make_unique<TestRun>(std::make_unique<storage::FileStore>(root));
  run->large_rows = 60;  // 64 KiB in all.
  run->as_attempt(attempt);
  return run;
}

struct AFullDisk : testing::Test {
  void SetUp() override { fakes::decide_file_calls(skip_syncs); }
  void TearDown() override { fakes::decide_file_calls(nullptr); }
  fakes::TemporaryFolder folder;
};

TEST_F(AFullDisk, LeavesAnObjectAsItWasOrWholeAtWhicheverCallItIsMet) {
  for (const Refusal& refusal : refusals) {
    for (const char* key : {"step-1/g-1/there", "step-2/g-1/new"}) {
      Met met{.is_refused = true};
      for (int fatal = 1; met.is_refused; ++fatal) {
        SCOPED_TRACE(testing::Message() << refusal.says << ", " << key << ", call " << fatal);
        const std::string root = folder.path() + "/run";
        std::filesystem::remove_all(root);
        storage::FileStore store{root};
        ASSERT_TRUE(storage::put_text(store, "step-1/g-1/there", "old"));
        fakes::decide_file_calls(refusing_at(fatal, refusal.error_number, met));
        const auto put = storage::put_text(store, key, "new");
        fakes::decide_file_calls(skip_syncs);
        ASSERT_EQ(put.has_value(), !met.is_refused);
        if (!put) {
          EXPECT_EQ(put.error().kind, ErrorKind::io);
          EXPECT_THAT(put.error().message, HasSubstr(refusal.says));
          EXPECT_THAT(put.error().message, HasSubstr(root));
        }
        // A folder that cannot be synced fails only after the object has got its name.
        const auto now = storage::get_text(store, key);
        const bool was_there = std::string_view{key} == "step-1/g-1/there";
        if (put || met.has_renamed) {
          EXPECT_EQ(now, "new");
        } else if (was_there) {
          EXPECT_EQ(now, "old");
        } else {
          EXPECT_EQ(now.error().kind, ErrorKind::not_found);
        }
        if (!was_there) {
          EXPECT_EQ(storage::get_text(store, "step-1/g-1/there"), "old");
        }
        EXPECT_FALSE(has_temporary_files(root));
        ASSERT_TRUE(storage::put_text(store, key, "newer"));
        EXPECT_EQ(storage::get_text(store, key), "newer");
      }
    }
  }
}

TEST_F(AFullDisk, FailsOneSaveAndHarmsNoOtherAtWhicheverCallItIsMet) {
  Met met{.is_refused = true};
  int points = 0;
  for (int fatal = 1; met.is_refused; ++fatal, ++points) {
    SCOPED_TRACE(testing::Message() << "call " << fatal);
    const Refusal& refusal = refusals[static_cast<std::size_t>(fatal) % std::size(refusals)];
    const std::string root = folder.path() + "/" + std::to_string(fatal);
    const auto run = run_in(root, 1);
    ASSERT_TRUE(run->restore() && run->save(10) && run->save(20));
    fakes::decide_file_calls(refusing_at(fatal, refusal.error_number, met));
    const auto saved = run->save(30);
    fakes::decide_file_calls(skip_syncs);
    ASSERT_EQ(saved.has_value(), !met.is_refused);
    if (!saved) {
      EXPECT_EQ(saved.error().kind, ErrorKind::io);
      EXPECT_THAT(saved.error().message, HasSubstr(refusal.says));
    }
    std::filesystem::copy(root, root + "-then", std::filesystem::copy_options::recursive);
    const auto then = run_in(root + "-then", 2);
    const auto restored = then->restore();
    ASSERT_TRUE(restored && *restored);
    EXPECT_TRUE((*restored)->step == 30 || (*restored)->step == 20);
    EXPECT_TRUE(then->holds_state_after((*restored)->step));

    ASSERT_TRUE(run->save(40)) << "there is space again";
    EXPECT_FALSE(has_temporary_files(root));
  }
  EXPECT_GT(points, 12);
}

// Runs `body` where `root` is a file system of its own of so many bytes, which nobody else sees. False when this
// process may not make one.
bool in_a_small_file_system(const std::string& root, const std::string& bytes, const std::function<void()>& body) {
  constexpr int not_allowed = 77;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string options = "size=" + bytes;
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", root.c_str(), "tmpfs", 0, options.c_str()) != 0) {
      ::_exit(not_allowed);
    }
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_allowed) return false;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  return true;
}

// A file of so many bytes, or of all that there is room for.
void fill(const std::string& path, std::size_t bytes) {
  std::ofstream file{path, std::ios::binary};
  const std::string page(4096, 'x');
  for (std::size_t written = 0; written < bytes && file; written += page.size()) {
    file.write(page.data(), static_cast<std::streamsize>(page.size()));
    file.flush();
  }
}

void saves_again_once_there_is_space(const std::string& root) {
  const auto first = run_in(root + "/run", 1);
  ASSERT_TRUE(first->restore() && first->save(10) && first->save(20));
  const std::string other = root + "/other";
  const auto space = [&] { return std::filesystem::space(root).available; };
  fill(other, space() - 32'768);  // Half of a checkpoint fits.
  const auto failed = first->save(30);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  EXPECT_THAT(failed.error().message, HasSubstr("No space left on device. Free space there"));
  EXPECT_FALSE(has_temporary_files(root));

  const auto second = run_in(root + "/run", 2);
  const auto restored = second->restore();
  ASSERT_TRUE(restored && *restored);
  EXPECT_EQ((*restored)->step, 20);
  EXPECT_TRUE(second->holds_state_after(20));

  fill(root + "/rest", space());
  EXPECT_THAT(run_in(root + "/run", 3)->restore().error().message, HasSubstr("No space left on device"));
  std::filesystem::remove(other);
  ASSERT_TRUE(second->save(30));
  const auto third = run_in(root + "/run", 3);
  EXPECT_EQ(third->restore().value()->step, 30);
  EXPECT_TRUE(third->holds_state_after(30));
}

TEST_F(AFullDisk, ThatIsRealFailsSavesUntilThereIsSpaceAndLosesNothing) {
  const std::string root = folder.path();
  if (in_a_small_file_system(root, "400k", [&] { saves_again_once_there_is_space(root); })) return;
  tests::cannot_run("a file system of its own needs root with CAP_SYS_ADMIN");
}

}  // namespace
}  // namespace trainyard::checkpoint

#include "worker/data/fetch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::data {
namespace {

using testing::HasSubstr;

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

class FetchTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = storage::open_store(remote_.uri() + "/bucket");
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    store_ = std::move(*opened);
  }
  void put(const std::string& key, const std::string& text) {
    const auto done = storage::put_text(*store_, key, text);
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }

  fakes::TemporaryFolder remote_;
  fakes::TemporaryFolder cache_;
  std::unique_ptr<storage::Store> store_;
  std::filesystem::path folder_ = std::filesystem::path{cache_.path()} / "data";
};

TEST_F(FetchTest, CopiesEveryObjectWithItsPath) {
  put("train/images", "abc");
  put("labels", std::string(40 << 20, 'x'));
  int signs_of_life = 0;
  const auto done = fetch(*store_, folder_, {}, [&] { ++signs_of_life; });
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(read_file(folder_ / "train/images"), "abc");
  EXPECT_EQ(read_file(folder_ / "labels"), std::string(40 << 20, 'x'));
  EXPECT_EQ(signs_of_life, 4);
}

TEST_F(FetchTest, LeavesOutWhatIsNoFileOfItsFolder) {
  fakes::MemoryObjects objects;
  const std::string outside = std::string{cache_.path()} + "/outside";
  for (const std::string& key : {std::string{"train/"}, std::string{"train/images"}, std::string{".DS_Store"},
                                 std::string{"train/.hidden/a"}, std::string{"../escaped"}, outside}) {
    objects.objects[key] = {std::byte{'x'}};
  }
  fakes::MemoryStore store{objects};
  const auto done = fetch(store, folder_, {}, [] {});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{cache_.path()}) {
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder_).string());
  }
  EXPECT_THAT(files, testing::UnorderedElementsAre(".lock", "train/images"));
}

TEST_F(FetchTest, LeavesFilesThatAreThereAndReplacesThoseOfAnotherSize) {
  put("same", "abc");
  put("torn", "abcdef");
  std::filesystem::create_directories(folder_);
  std::ofstream{folder_ / "same"} << "xyz";
  std::ofstream{folder_ / "torn"} << "abc";
  ASSERT_TRUE(fetch(*store_, folder_, {}, [] {}).has_value());
  EXPECT_EQ(read_file(folder_ / "same"), "xyz");
  EXPECT_EQ(read_file(folder_ / "torn"), "abcdef");
}

TEST_F(FetchTest, ReplacesAFileWhoseObjectHasBecomeShorter) {
  put("images", "abcdef");
  ASSERT_TRUE(fetch(*store_, folder_, {}, [] {}).has_value());
  put("images", "xyz");
  ASSERT_TRUE(fetch(*store_, folder_, {}, [] {}).has_value());
  EXPECT_EQ(read_file(folder_ / "images"), "xyz");
}

TEST_F(FetchTest, IsDoneByOneAtATime) {
  put("images", "abc");
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([&] { failures += fetch(*store_, folder_, {}, [] {}).has_value() ? 0 : 1; });
    }
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(read_file(folder_ / "images"), "abc");
}

TEST_F(FetchTest, LetsNobodyElseTakeItsLockMeanwhile) {
  put("images", "abc");
  int tries = 0;
  const auto try_to_share = [&] {
    const int lock = ::open((folder_ / ".lock").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(lock, 0);
    EXPECT_NE(::flock(lock, LOCK_SH | LOCK_NB), 0);
    ::close(lock);
    ++tries;
  };
  ASSERT_TRUE(fetch(*store_, folder_, {}, try_to_share).has_value());
  EXPECT_GT(tries, 0);
}

TEST_F(FetchTest, ShowsProgressWhileItWaitsForTheLock) {
  put("images", "abc");
  std::filesystem::create_directories(folder_);
  const int held = ::open((folder_ / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  int waits = 0;
  const auto done = fetch(*store_, folder_, {}, [&] {
    if (++waits != 2) return;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "images"));
    ::close(held);
  });
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(waits, 3) << "two while it waited, one for the file";
}

TEST_F(FetchTest, SaysWhatItCannotWrite) {
  put("images", "abc");
  const auto error = [this](const std::filesystem::path& folder) {
    const auto done = fetch(*store_, folder, {}, [] {});
    EXPECT_FALSE(done.has_value());
    EXPECT_EQ(done.error().kind, ErrorKind::io);
    return done.error().message;
  };
  std::filesystem::create_directories(folder_ / "images" / "full");
  EXPECT_THAT(error(folder_), HasSubstr("renaming " + (folder_ / "images.part").string()));
  std::filesystem::remove(folder_ / "images.part");
  std::filesystem::create_directory(folder_ / "images.part");
  EXPECT_THAT(error(folder_), HasSubstr("removing " + (folder_ / "images.part").string() + ": Is a directory"));
  std::filesystem::remove(folder_ / ".lock");
  std::filesystem::create_directory(folder_ / ".lock");
  EXPECT_THAT(error(folder_), HasSubstr("opening the lock " + (folder_ / ".lock").string() + ": Is a directory"));
  cache_.write("file", "");
  EXPECT_THAT(error(cache_.file("file") / "data"),
              HasSubstr("opening the folder " + cache_.file("file").string() + ": Not a directory"));
}

TEST_F(FetchTest, SaysThatTheFileSystemTakesNoMore) {
  put("images", std::string(1 << 16, 'x'));
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1 << 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto done = fetch(*store_, folder_, {}, [] {});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().kind, ErrorKind::io);
  EXPECT_THAT(done.error().message, HasSubstr("writing " + (folder_ / "images.part").string() + ": File too large"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "images"));
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

TEST_F(FetchTest, MakesFilesForItsOwnerAloneUnlessAskedOtherwise) {
  struct Row {
    mode_t umask;
    storage::posix::Modes modes;
  };
  put("train/images", "abc");
  for (const auto& [umask, modes] : {Row{.umask = 0, .modes = {}}, Row{.umask = 0077, .modes = {0660, 0770}}}) {
    const auto cache = cache_.file(fmt::format("cache-{:o}", modes.file));
    const mode_t umask_before = ::umask(umask);
    const auto done = fetch(*store_, cache / "data", modes, [] {});
    ::umask(umask_before);
    ASSERT_TRUE(done.has_value()) << done.error().message;
    for (const char* folder : {"", "data", "data/train"}) EXPECT_EQ(mode_of(cache / folder), modes.folder) << folder;
    for (const char* file : {"data/.lock", "data/train/images"}) EXPECT_EQ(mode_of(cache / file), modes.file) << file;
  }
}

TEST_F(FetchTest, ReplacesWhatAKilledProcessLeftUnfinished) {
  put("images", "abc");
  std::filesystem::create_directories(folder_);
  std::ofstream{folder_ / "images.part"} << "abcdef";
  std::filesystem::permissions(folder_ / "images.part", static_cast<std::filesystem::perms>(0644));
  ASSERT_TRUE(fetch(*store_, folder_, {}, [] {}).has_value());
  EXPECT_EQ(read_file(folder_ / "images"), "abc");
  EXPECT_EQ(mode_of(folder_ / "images"), 0600U);
}

TEST_F(FetchTest, CopiesAnObjectWithoutBytes) {
  fakes::MemoryObjects objects;
  objects.objects["train/empty"] = {};
  fakes::MemoryStore store{objects};
  const auto done = fetch(store, folder_, {}, [] {});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(std::filesystem::file_size(folder_ / "train/empty"), 0U);
}

TEST_F(FetchTest, FailsWithTheStoreAndLeavesNoFileThatLooksWhole) {
  for (const std::string call : {"list", "get_range"}) {
    fakes::MemoryObjects objects;
    objects.objects["images"] = {std::byte{'x'}};
    fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                             [&](std::string_view asked, std::string_view, auto) -> std::optional<Error> {
                               if (asked != call) return std::nullopt;
                               return Error{.kind = ErrorKind::unavailable, .message = "no answer", .retry_after = {}};
                             }};
    const auto done = fetch(store, folder_, {}, [] {});
    ASSERT_FALSE(done.has_value()) << call;
    EXPECT_EQ(done.error().kind, ErrorKind::unavailable) << call;
    EXPECT_THAT(done.error().message, HasSubstr("no answer"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "images")) << call;
  }
}

TEST_F(FetchTest, SaysWhereItFoundNothing) {
  const auto done = fetch(*store_, folder_, {}, [] {});
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().kind, ErrorKind::not_found);
  EXPECT_THAT(done.error().message, HasSubstr(remote_.uri() + "/bucket"));
}

TEST(CacheFolder, IsReadableAndOfOneUriOnly) {
  const auto folder = cache_folder("/cache", "s3://data/fashion-mnist");
  EXPECT_THAT(folder.string(), testing::StartsWith("/cache/s3---data-fashion-mnist-"));
  EXPECT_NE(folder, cache_folder("/cache", "s3://data/fashion/mnist"));
  // A file system takes names of at most 255 bytes.
  const std::string long_uri = "s3://data/" + std::string(500, 'x');
  EXPECT_EQ(cache_folder("/cache", long_uri).filename().string().size(), 117U);
  EXPECT_NE(cache_folder("/cache", long_uri + "1"), cache_folder("/cache", long_uri + "2"));
}

}  // namespace
}  // namespace trainyard::data

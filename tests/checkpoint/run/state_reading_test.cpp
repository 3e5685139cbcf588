#include "checkpoint/run/state_reading.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "checkpoint/format/data_file.hpp"
#include "checkpoint/format/layout.hpp"
#include "storage/file_store.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kibibyte = 1024;

// Replicated entries of `kibibytes` each, as a single rank has saved them.
class SavedEntries {
 public:
  explicit SavedEntries(const std::vector<std::uint64_t>& kibibytes) {
    for (const std::uint64_t size : kibibytes) {
      bytes_.emplace_back(size * kibibyte);
      for (std::size_t i = 0; i < bytes_.back().size(); i += 64) bytes_.back()[i] = std::byte(bytes_.size() + i / 64);
      manifest_.entries.push_back({.name = "entry." + std::to_string(bytes_.size()),
                                   .placement = Placement::replicated,
                                   .dtype = "U8",
                                   .shape = {static_cast<std::int64_t>(bytes_.back().size())},
                                   .bytes = bytes_.back().size()});
    }
    fakes::MemoryStore store{objects_};
    manifest_.id = {.step = 1, .generation = 1};
    manifest_.receipts.push_back(*write_share(store, manifest_, 0, 1, entries_of(bytes_)));
  }

  /// Reads the state through a store that asks `fault`; returns the error if that fails.
  Result<void> read(fakes::FaultyStore::Fault fault) {
    auto read = bytes_;
    for (auto& bytes : read) std::ranges::fill(bytes, std::byte{0xEE});
    fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects_), std::move(fault)};
    return read_state(store, manifest_, 0, entries_of(read)).map([&] { EXPECT_EQ(read, bytes_); });
  }

  /// Changes a byte of an entry where it is stored.
  void damage(std::size_t entry) {
    const Chunk& chunk = manifest_.receipts[0].chunks[entry];
    objects_.objects[data_key(manifest_, 0)][chunk.offset + chunk.bytes / 2] ^= std::byte{1};
  }

 private:
  [[nodiscard]] std::vector<HostEntry> entries_of(std::vector<std::vector<std::byte>>& bytes) const {
    std::vector<HostEntry> entries;
    for (std::size_t i = 0; i < bytes.size(); ++i) entries.push_back({.info = manifest_.entries[i], .bytes = bytes[i]});
    return entries;
  }

  fakes::MemoryObjects objects_;
  std::vector<std::vector<std::byte>> bytes_;
  Manifest manifest_;
};

TEST(StateReading, IsReadByRequestsThatAreNeitherTinyNorHoldMuchBesides) {
  struct Row {
    std::string_view name;
    std::vector<std::uint64_t> kibibytes;
    std::vector<std::uint64_t> requests;  // The size of each in KiB, the smallest first.
  };
  const Row rows[] = {
      {"nothing", {}, {}},
      {"an empty one", {0}, {}},
      {"small ones together", {1, 2, 3}, {6}},
      {"large ones alone", {20480, 4096, 5000}, {4096, 5000, 20480}},
      {"small ones between large ones", {5000, 1, 2, 5000, 3}, {3, 3, 5000, 5000}},
      {"no more than 8 MiB together", {3000, 3000, 3000, 3000}, {6000, 6000}},
  };
  for (const Row& row : rows) {
    std::mutex mutex;  // guards requests
    std::vector<std::uint64_t> requests;
    const auto note = [&](std::string_view call, std::string_view, storage::Pieces into) -> std::optional<Error> {
      const std::scoped_lock lock{mutex};
      if (call == "get_range") requests.push_back(into.front().size() / kibibyte);
      return std::nullopt;
    };
    EXPECT_TRUE(SavedEntries{row.kibibytes}.read(note)) << row.name;
    std::ranges::sort(requests);
    EXPECT_EQ(requests, row.requests) << row.name;
  }
}

TEST(StateReading, IsReadBySeveralRequestsAtATime) {
  std::mutex mutex;  // guards under_way
  std::condition_variable changed;
  int under_way = 0;
  const auto wait_for_another = [&](std::string_view, std::string_view, storage::Pieces) -> std::optional<Error> {
    std::unique_lock lock{mutex};
    ++under_way;
    changed.notify_all();
    const bool is_met = changed.wait_for(lock, std::chrono::minutes{1}, [&] { return under_way >= 3; });
    return is_met ? std::nullopt : std::optional{Error{ErrorKind::timeout, "alone", std::nullopt}};
  };
  const auto read = SavedEntries{{5000, 5000, 5000}}.read(wait_for_another);
  EXPECT_TRUE(read) << read.error().message;
}

TEST(StateReading, ReportsTheFailureHoweverManyRequestsFail) {
  SavedEntries saved{{5000, 1, 5000, 5000, 1, 5000}};
  for (const std::size_t entry : {5U, 4U, 1U}) {
    saved.damage(entry);
    const auto read = saved.read([](auto, auto, auto) { return std::nullopt; });
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(read.error().message, HasSubstr("the checksum of entry."));
  }
  const auto refused = saved.read([](auto, auto, auto) { return Error{ErrorKind::forbidden, "no", std::nullopt}; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::forbidden);
}

// Runs `rank_main` as every rank of a group, each with a store of its own that `open` makes and that asks `fault`.
void on_every_rank_over(std::int64_t world_size, const std::function<std::unique_ptr<storage::Store>()>& open,
                        const fakes::FaultyStore::Fault& fault, const std::function<void(TestRun&)>& rank_main) {
  fakes::ThreadGroup group{world_size};
  group.run([&](Communicator& communicator) {
    TestRun run{std::make_unique<fakes::FaultyStore>(open(), fault)};
    run.communicator = &communicator;
    rank_main(run);
  });
}

TEST(StateReading, FetchesWhatAllRanksNeedOnceForTheGroupFromARemoteStore) {
  struct Row {
    std::int64_t saved_by = 0;
    std::int64_t restored_by = 0;
    std::uint32_t file_system = 0;  // The kind of the folder's file system. 0: objects in memory, as if far away.
  };
  constexpr std::uint32_t ext4 = 0xEF53;
  constexpr std::uint32_t nfs = 0x6969;
  constexpr std::int64_t large_rows = 9000;  // Shares that go over in several messages.
  const Row rows[] = {{1, 1}, {1, 3}, {2, 2}, {3, 2}, {2, 5}, {1, 3, ext4}, {2, 2, ext4}, {1, 3, nfs}, {2, 2, nfs}};
  for (const Row& row : rows) {
    SCOPED_TRACE(
        fmt::format("saved by {}, restored by {}, file system {:x}", row.saved_by, row.restored_by, row.file_system));
    fakes::MemoryObjects objects;
    const fakes::TemporaryFolder folder;
    const auto open = [&]() -> std::unique_ptr<storage::Store> {
      if (row.file_system != 0) {
        return std::make_unique<storage::FileStore>(
            folder.path(), [&row](const std::string&) { return std::optional{row.file_system}; });
      }
      return std::make_unique<fakes::MemoryStore>(objects);
    };
    std::atomic<std::uint64_t> fetched_bytes{0};
    const auto count = [&](std::string_view call, std::string_view key, storage::Pieces into) -> std::optional<Error> {
      if (is_data(call, key)) fetched_bytes += into.front().size();
      return std::nullopt;
    };
    on_every_rank_over(row.saved_by, open, count, [](TestRun& run) {
      run.large_rows = large_rows;
      ASSERT_TRUE(run.restore());
      ASSERT_TRUE(run.save(10));
    });
    on_every_rank_over(row.restored_by, open, count, [&](TestRun& run) {
      run.large_rows = large_rows;
      const auto restored = run.as_attempt(2).restore();
      ASSERT_TRUE(restored) << restored.error().message;
      EXPECT_TRUE(run.communicator->rank() >= row.saved_by || run.holds_state_after(10));
    });
    std::uint64_t common_bytes = 0;
    std::uint64_t own_bytes = 0;
    const TestState state{0, large_rows};
    for (const HostEntry& entry : state.entries())
      (entry.info.placement == Placement::per_rank ? own_bytes : common_bytes) += entry.bytes.size();
    const auto readers = static_cast<std::uint64_t>(row.file_system == ext4 ? row.restored_by : 1);
    const auto owners = static_cast<std::uint64_t>(std::min(row.saved_by, row.restored_by));
    EXPECT_EQ(fetched_bytes, readers * common_bytes + owners * own_bytes);
  }
}

TEST(StateReading, OfAGroupThatLosesARankWhileItExchangesWhatItReadEndsAsTheGroupDoes) {
  fakes::MemoryObjects objects;
  on_every_rank(2, objects, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save(10));
  });
  TestRun reader{objects};
  const auto manifest = parse_manifest(*storage::get_text(reader.store(), manifest_key({.step = 10, .generation = 1})));
  ASSERT_TRUE(manifest);
  fakes::ThreadGroup group{2};
  group.run([&](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    fakes::MemoryStore store{objects};
    const TestState state{0};
    const auto reading = plan_reading(store, *manifest, 0, state.entries());
    ASSERT_TRUE(reading);
    ASSERT_TRUE(read_share(store, *manifest, 0, 2, *reading));
    const auto exchanged = exchange_shares(communicator, *reading);
    ASSERT_FALSE(exchanged);
    EXPECT_EQ(exchanged.error().kind, ErrorKind::cancelled);
  });
}

}  // namespace
}  // namespace trainyard::checkpoint

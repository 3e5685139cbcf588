#include "worker/checkpoint/core/data_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"
#include "worker/checkpoint/core/layout.hpp"

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
    manifest_.receipts.push_back(*write_share(store, manifest_.id, 0, 1, entries_of(bytes_)));
  }

  /// What is read of it through a store that asks `fault`; the error where that fails.
  Result<void> read(fakes::FaultyStore::Fault fault) {
    auto read = bytes_;
    for (auto& bytes : read) std::ranges::fill(bytes, std::byte{0xEE});
    fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects_), std::move(fault)};
    return read_state(store, manifest_, 0, entries_of(read)).map([&] { EXPECT_EQ(read, bytes_); });
  }

  /// Changes a byte of an entry where it is stored.
  void damage(std::size_t entry) {
    const Chunk& chunk = manifest_.receipts[0].chunks[entry];
    objects_.objects[data_key(manifest_.id, 0)][chunk.offset + chunk.bytes / 2] ^= std::byte{1};
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

TEST(DataFile, IsReadByRequestsThatAreNeitherTinyNorHoldMuchBesides) {
  struct Row {
    std::string_view name;
    std::vector<std::uint64_t> kibibytes;
    std::vector<std::uint64_t> requests;  // Of how many KiB each, the smallest first.
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

TEST(DataFile, IsReadBySeveralRequestsAtATime) {
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

TEST(DataFile, TellsWhatFailsHoweverManyDo) {
  SavedEntries saved{{5000, 1, 5000, 5000, 1, 5000}};
  for (const std::size_t entry : {5, 4, 1}) {
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

}  // namespace
}  // namespace trainyard::checkpoint

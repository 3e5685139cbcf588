#include "common/parallel.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>

namespace trainyard {
namespace {

using Numbers = std::vector<std::uint64_t>;

std::uint64_t itself(std::uint64_t number) {
  return number;
}

TEST(SplitByWeight, GivesNeighboursOfAboutEqualWeight) {
  struct Row {
    std::string_view name;
    Numbers all;
    std::size_t count;
    std::vector<Numbers> parts;
  };
  const Row rows[] = {
      {"nothing", {}, 3, {}},
      {"one for all", {1, 2, 3}, 1, {{1, 2, 3}}},
      {"as many as there are", {1, 1, 1}, 3, {{1}, {1}, {1}}},
      {"fewer than asked for", {5, 5}, 4, {{5}, {5}}},
      {"a heavy one in front", {9, 1, 1, 1}, 2, {{9}, {1, 1, 1}}},
      {"a heavy one at the end", {1, 1, 1, 9}, 2, {{1, 1, 1, 9}}},
      {"equal ones", {2, 2, 2, 2, 2, 2}, 3, {{2, 2}, {2, 2}, {2, 2}}},
      {"without weight at the end", {3, 3, 0, 0}, 2, {{3}, {3, 0, 0}}},
      {"without any weight", {0, 0, 0}, 2, {{0}, {0, 0}}},
  };
  for (const Row& row : rows) {
    std::vector<Numbers> parts;
    for (const auto& part : split_by_weight(std::span<const std::uint64_t>{row.all}, row.count, itself))
      parts.emplace_back(part.begin(), part.end());
    EXPECT_EQ(parts, row.parts) << row.name;
  }
}

TEST(ParallelFor, WorksOnAllPartsAndReturnsTheErrorOfTheFirstPartThatFails) {
  struct Row {
    std::string_view name;
    std::vector<Numbers> parts;
    std::uint64_t fails_from;
    std::string error;
  };
  const Row rows[] = {
      {"nothing", {}, 100, ""},
      {"one part", {{1, 2, 3}}, 100, ""},
      {"several", {{1, 2}, {3}, {4, 5}}, 100, ""},
      {"one that fails", {{1, 2}, {3}, {4, 5}}, 5, "5"},
      {"several that fail", {{1}, {3, 4}, {5}}, 3, "3"},
  };
  for (const Row& row : rows) {
    std::vector<std::span<const std::uint64_t>> parts(row.parts.begin(), row.parts.end());
    std::mutex mutex;  // guards sum
    std::uint64_t sum = 0;
    const auto done = parallel_for(std::span<const std::span<const std::uint64_t>>{parts},
                                   [&](std::span<const std::uint64_t> part, const std::atomic<bool>&) -> Result<void> {
                                     for (const std::uint64_t number : part) {
                                       if (number >= row.fails_from) return fail(ErrorKind::io, std::to_string(number));
                                       const std::scoped_lock lock{mutex};
                                       sum += number;
                                     }
                                     return {};
                                   });
    EXPECT_EQ(done ? "" : done.error().message, row.error) << row.name;
    std::uint64_t expected = 0;
    for (const Numbers& part : row.parts) {
      for (const std::uint64_t number : part) {
        if (number >= row.fails_from) break;
        expected += number;
      }
    }
    EXPECT_EQ(sum, expected) << row.name;
  }
}

TEST(ParallelFor, ShowsAPartThatAnotherPartHasFailed) {
  const Numbers numbers{1, 2};
  const auto parts = split_by_weight(std::span<const std::uint64_t>{numbers}, 2, itself);
  const auto done = parallel_for(
      std::span{parts}, [](std::span<const std::uint64_t> part, const std::atomic<bool>& has_failed) -> Result<void> {
        if (part.front() == 1) return fail(ErrorKind::io, "the first");
        while (!has_failed) std::this_thread::yield();
        return {};
      });
  EXPECT_EQ(done ? "" : done.error().message, "the first");
}

}  // namespace
}  // namespace trainyard

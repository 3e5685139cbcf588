#include "worker/logs/parts.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/logs/a_record.hpp"

namespace trainyard::logs {
namespace {

const std::string line = "123456789\n";

Parts a_parts(PartLimits limits) {
  return Parts{api::LogFile::jsonl, {.run_began = midnight}, limits};
}

std::string key(std::int64_t part) {
  return key_of(api::LogFile::jsonl, {.run_began = midnight, .attempt = 1, .part = part});
}

/// Saves all parts, and returns what was put, each as "KEY BYTES".
std::vector<std::pair<std::string, std::string>> save(Parts& parts) {
  std::vector<std::pair<std::string, std::string>> saved;
  while (const auto* part = parts.unsaved()) {
    saved.emplace_back(part->key, part->bytes);
    parts.mark_saved();
  }
  return saved;
}

using Saved = std::vector<std::pair<std::string, std::string>>;

TEST(Parts, PutTheLastOneAgainWithItsNewLines) {
  Parts parts = a_parts({});
  EXPECT_EQ(parts.unsaved(), nullptr);
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_EQ(save(parts), (Saved{{key(1), line}}));
  EXPECT_TRUE(parts.add("", midnight));
  EXPECT_EQ(parts.unsaved(), nullptr);
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_EQ(save(parts), (Saved{{key(1), line + line}}));
}

TEST(Parts, BeginANewOneWhereOneIsFullAndPutEachInOrder) {
  Parts parts = a_parts({.part_bytes = 20, .held_bytes = 1000});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_EQ(save(parts), (Saved{{key(1), line + line}, {key(2), line + line}, {key(3), line}}));
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_EQ(save(parts), (Saved{{key(3), line + line}, {key(4), line}}));
}

TEST(Parts, HaveRoomForARecordThatIsLargerThanAPartAgainAndAgain) {
  Parts parts = a_parts({.part_bytes = 20, .held_bytes = 50});
  const std::string large = line + line + line;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(parts.add(large, midnight)) << "what is stored takes no room";
    save(parts);
  }
}

TEST(Parts, DoNotPutAFullOneAgain) {
  Parts parts = a_parts({.part_bytes = 20, .held_bytes = 1000});
  EXPECT_TRUE(parts.add(line + line, midnight));
  save(parts);
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_EQ(save(parts), (Saved{{key(2), line}}));
}

TEST(Parts, TakeALineThatIsLongerThanAPart) {
  Parts parts = a_parts({.part_bytes = 5, .held_bytes = 1000});
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_EQ(save(parts), (Saved{{key(1), line}, {key(2), line}}));
}

TEST(Parts, TakeNothingBeyondTheLimitUntilOneIsSaved) {
  Parts parts = a_parts({.part_bytes = 20, .held_bytes = 40});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_FALSE(parts.add(line, midnight));
  parts.mark_saved();
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_EQ(save(parts), (Saved{{key(2), line + line}, {key(3), line}}));
}

TEST(Parts, HoldWhatIsSavedOfThePartThatTheyStillAddTo) {
  Parts parts = a_parts({.part_bytes = 1000, .held_bytes = 30});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(parts.add(line, midnight));
  save(parts);
  EXPECT_TRUE(parts.add(line, midnight));
  EXPECT_FALSE(parts.add(line, midnight)) << "the saved bytes are in memory too";
}

}  // namespace
}  // namespace trainyard::logs

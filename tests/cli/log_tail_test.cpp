#include "cli/log_tail.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

class LogTailTest : public testing::Test {
 protected:
  void append(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(folder_.file(name).parent_path());
    std::ofstream{folder_.file(name), std::ios::app} << text;
  }
  const fakes::TemporaryFolder folder_;
};

TEST_F(LogTailTest, GivesWhatIsNewEachTime) {
  LogTail tail{folder_.file("log")};
  EXPECT_EQ(tail.read(), "") << "the file is not there yet";
  append("log", "one");
  EXPECT_EQ(tail.read(), "one");
  EXPECT_EQ(tail.read(), "");
  append("log", " two\n");
  EXPECT_EQ(tail.read(), " two\n");
}

TEST_F(LogTailTest, KeepsBackALineThatIsNotWhole) {
  LogTail tail{folder_.file("log")};
  append("log", "one\ntw");
  EXPECT_EQ(tail.read_lines(), "one\n");
  append("log", "o\nthree");
  EXPECT_EQ(tail.read_lines(), "two\n");
  EXPECT_EQ(tail.rest(), "three");
  EXPECT_EQ(tail.rest(), "");
}

TEST_F(LogTailTest, APartOfALineComesACallLaterWhetherOrNotItHasGrown) {
  LogTail tail{folder_.file("log")};
  append("log", "one\n10%");
  EXPECT_EQ(tail.read_soon(), "one\n");
  EXPECT_EQ(tail.read_soon(), "10%");
  append("log", "\r20%");
  EXPECT_EQ(tail.read_soon(), "");
  append("log", "\r30%");
  EXPECT_EQ(tail.read_soon(), "\r20%\r30%");
  EXPECT_EQ(tail.read_soon(), "");
}

TEST_F(LogTailTest, ReadsALargeFileInPieces) {
  append("log", std::string(3'000'000, 'x'));
  LogTail tail{folder_.file("log")};
  std::size_t sum = 0;
  for (std::string bytes = tail.read(); !bytes.empty(); bytes = tail.read()) {
    EXPECT_LE(bytes.size(), 1U << 20);
    sum += bytes.size();
  }
  EXPECT_EQ(sum, 3'000'000U);
}

TEST(WithPrefix, PrefixesEachLine) {
  EXPECT_EQ(with_prefix("", "p: "), "");
  EXPECT_EQ(with_prefix("a\n", "p: "), "p: a\n");
  EXPECT_EQ(with_prefix("a\n\nb\n", "p: "), "p: a\np: \np: b\n");
  EXPECT_EQ(with_prefix("a\nb", "p: "), "p: a\np: b");
}

TEST_F(LogTailTest, TheFollowerShowsEachAttemptToItsLastWord) {
  OutputFollower follower{folder_.path(), {{.rank = 0}, {.rank = 1, .prefix = "[1] "}}};
  EXPECT_EQ(follower.read(1), RankOutput{});
  append("attempt-1/rank-0.log", "a\n");
  append("attempt-1/rank-1.log", "b\nlast");
  EXPECT_EQ(follower.read(1).output, "a\n[1] b\n");
  append("attempt-1/rank-0.log", "late\n");
  append("attempt-2/rank-0.log", "new\n");
  EXPECT_EQ(follower.read(2).output, "late\n[1] last\nnew\n");
  EXPECT_EQ(follower.read_rest(), RankOutput{});
}

TEST_F(LogTailTest, TheFollowerShowsALastLineOfAnyLength) {
  OutputFollower follower{folder_.path(), {{.rank = 0}}};
  const std::string line(3'000'000, 'x');
  append("attempt-1/rank-0.log", line);
  std::size_t shown = follower.read(1).output.size();
  shown += follower.read_rest().output.size();
  EXPECT_EQ(shown, line.size());
}

TEST_F(LogTailTest, TheFollowerKeepsStandardErrorApart) {
  OutputFollower follower{folder_.path(),
                          {{.rank = 0, .stream = local::LogStream::output},
                           {.rank = 0, .stream = local::LogStream::error, .prefix = "[0] "}}};
  append("attempt-1/rank-0.stdout.log", "out\n");
  append("attempt-1/rank-0.stderr.log", "err\n");
  EXPECT_EQ(follower.read(1), (RankOutput{.output = "out\n", .error = "[0] err\n"}));
}

}  // namespace
}  // namespace trainyard::cli

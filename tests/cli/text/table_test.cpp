#include "cli/text/output.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace trainyard::cli {
namespace {

TEST(HumanBytes, ShowsThreeDigitsOrSo) {
  const std::vector<std::pair<std::uint64_t, std::string>> cases = {{0, "0 B"},
                                                                    {1023, "1023 B"},
                                                                    {1024, "1.0 KiB"},
                                                                    {1536, "1.5 KiB"},
                                                                    {1048575, "1.0 MiB"},
                                                                    {std::uint64_t{5} << 30, "5.0 GiB"},
                                                                    {~std::uint64_t{0}, "16384.0 PiB"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(human_bytes(bytes), text);
}

TEST(Table, AlignsColumnsAndEndsLinesWithoutSpaces) {
  EXPECT_EQ(table({{"STEP", "JOB", "X"}, {"5", "team/a", ""}}, {true, false, false}),
            "STEP   JOB      X\n   5   team/a\n");
}

TEST(Printable, LeavesNothingThatSteersATerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f ü"), "a?[2Jb?? ü");
}

}  // namespace
}  // namespace trainyard::cli

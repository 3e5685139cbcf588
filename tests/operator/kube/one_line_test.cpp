#include "operator/kube/one_line.hpp"

#include <gtest/gtest.h>

namespace trainyard::kube {
namespace {

TEST(OnOneLine, JoinsTheWordsAndLeavesOutWhatIsTooLong) {
  struct Row {
    std::string_view text;
    std::string_view line;
  };
  for (const Row& row : {Row{"", ""}, Row{" \n\t", ""}, Row{"one", "one"},
                         Row{"  Get it:\r\n\x1b[1mgo\x7fnow. \n", "Get it: [1mgo now"}, Row{"no more...", "no more"},
                         Row{"five5 sixsix five5", "five5 ... five5"}, Row{"five5 sixsix.", "five5 ..."}}) {
    EXPECT_EQ(on_one_line(row.text, 5), row.line) << row.text;
  }
  EXPECT_EQ(on_one_line("a word that is sixsix"), "a word that is sixsix");
}

}  // namespace
}  // namespace trainyard::kube

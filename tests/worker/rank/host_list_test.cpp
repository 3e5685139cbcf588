#include "worker/rank/mpi_and_slurm.hpp"

#include <gtest/gtest.h>

namespace trainyard::rank {
namespace {

using Names = std::vector<std::string>;

TEST(ExpandHostList, NamesEveryHostInSlurmsOrder) {
  const std::vector<std::pair<std::string, Names>> cases{
      {"gpu-1", {"gpu-1"}},
      {"n[001-003,7],m2", {"n001", "n002", "n003", "n7", "m2"}},
      {"n[08-11]", {"n08", "n09", "n10", "n11"}},
      {"n[3-3]", {"n3"}},
      {"n[8-11]", {"n8", "n9", "n10", "n11"}},
      {"a[1-2]-ib", {"a1-ib", "a2-ib"}},
      {"r[1-2]n[1-2]", {"r1n1", "r1n2", "r2n1", "r2n2"}},
      {"[1-2].lab", {"1.lab", "2.lab"}},
  };
  for (const auto& [text, names] : cases) {
    const auto hosts = expand_host_list(text);
    ASSERT_TRUE(hosts) << hosts.error().message;
    EXPECT_EQ(*hosts, names) << text;
  }
}

TEST(ExpandHostList, TakesAsManyHostsAsAGroupMayHaveRanks) {
  for (const std::string text : {"n[0-65535]", "n[0-32767],m[0-32767]"}) {
    const auto hosts = expand_host_list(text);
    ASSERT_TRUE(hosts) << hosts.error().message;
    EXPECT_EQ(hosts->size(), 65'536U) << text;
  }
}

TEST(ExpandHostList, RefusesOtherText) {
  for (const std::string text :
       {"",      "n[",      "n[1-",     "n[]",        "n[3-1]",       "n[a-b]",          "n[1,]",
        "n]",    "n1,",     ",n1",      "n1,,n2",     "n[1-99999]",   "n[1-999][1-999]", "n[1-9999999999]",
        "n 1",   "n[1-2]]", "n[[1-2]]", "n[0-65536]", "n[1-65536],m", "n[0000000001]",   "n[1--5]",
        "n[+1]", "n[1-2",   "n\t1"}) {
    const auto hosts = expand_host_list(text);
    ASSERT_FALSE(hosts) << text;
    EXPECT_EQ(hosts.error().kind, ErrorKind::invalid);
    EXPECT_EQ(
        hosts.error().message,
        "'" + text + "' is not a list of hosts as Slurm writes it, such as n[001-003,7],m2, of at most 65536 hosts");
  }
}

TEST(CountOfNode, ReadsSlurmsShortForm) {
  EXPECT_EQ(count_of_node("4", 0), 4);
  for (const auto& [node, count] : std::vector<std::pair<int, int>>{{0, 2}, {2, 2}, {3, 1}, {4, 3}, {5, 3}})
    EXPECT_EQ(count_of_node("2(x3),1,3(x2)", node), count) << node;
}

TEST(CountOfNode, RefusesOtherTextAndShorterLists) {
  for (const std::string text :
       {"", "x", "2(x)", "2(x2", "2x3", "(x2)", "2,", "2(x1)", "-2,1", "2(x-1),1", "2(x2)y", "2(x23", "+2,1", " 2,1"}) {
    const auto count = count_of_node(text, 1);
    ASSERT_FALSE(count) << text;
    EXPECT_EQ(count.error().message,
              "'" + text + "' does not give the tasks of node 1 as Slurm writes them, such as 2(x3),1");
  }
}

}  // namespace
}  // namespace trainyard::rank

#include "cli/hosts.hpp"

#include <gtest/gtest.h>

#include "cli/local_job.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using local::RankSeat;
using Hosts = std::vector<Host>;

TEST(WithOneRankEach, TakesASlotOfEachHostThatHasTheGpusOfARank) {
  const auto seats = seat_ranks(*with_one_rank_each({{"a", 4}, {"b", 8}}, 4), 2);
  ASSERT_TRUE(seats) << seats.error().message;
  EXPECT_EQ((*seats)[0].host, "a");
  EXPECT_EQ((*seats)[1].host, "b");
  EXPECT_EQ((*seats)[1].variables.at("LOCAL_WORLD_SIZE"), "1");
  EXPECT_EQ(with_one_rank_each({{"a", 4}, {"b", 1}}, 2).error().message,
            "a rank of strategy dp or ddp2 uses gpusPerPod 2 GPUs of its host, but b has 1 slot: give it 2, or lower "
            "spec.gpusPerPod");
}

TEST(ParseHosts, ReadsHostsWithTheirSlots) {
  const std::vector<std::pair<std::string, Hosts>> cases{
      {"host1", {{"host1", 1}}},
      {"host1:4,host2:4", {{"host1", 4}, {"host2", 4}}},
      {"ann@gpu-1.lab,10.0.0.7:1024", {{"ann@gpu-1.lab", 1}, {"10.0.0.7", 1024}}},
  };
  for (const auto& [text, hosts] : cases) {
    const auto parsed = parse_hosts(text);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, hosts);
  }
}

TEST(ParseHosts, SaysWhatAnEntryMustBe) {
  const auto form = [](const std::string& text, const std::string& entry) {
    return "-H " + text + ": '" + entry + "' must be HOST or HOST:SLOTS with 1 to 1024 slots, such as host1:4,host2:4";
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", form("", "")},
      {"a,", form("a,", "")},
      {"a,,b", form("a,,b", "")},
      {"a:0", form("a:0", "a:0")},
      {"a:1025", form("a:1025", "a:1025")},
      {"a:x,b", form("a:x,b", "a:x")},
      {"a:1:2", form("a:1:2", "a:1:2")},
      {"a:+1", form("a:+1", "a:+1")},
      {"a:-1", form("a:-1", "a:-1")},
      {"a: 1", form("a: 1", "a: 1")},
      {"a, b", form("a, b", " b")},
      {",a", form(",a", "")},
      {"a/b", form("a/b", "a/b")},
      {"a:", form("a:", "a:")},
      {":4", form(":4", ":4")},
      {"-oProxyCommand=x", form("-oProxyCommand=x", "-oProxyCommand=x")},
      {"ann@:2", form("ann@:2", "ann@:2")},
      {"a b", form("a b", "a b")},
      {"a:2,b,a:1", "-H a:2,b,a:1 names a twice: give all its slots in one place"},
  };
  for (const auto& [text, sentence] : cases) {
    const auto parsed = parse_hosts(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().message, sentence);
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
  }
}

TEST(ParseHostFile, ReadsAHostOnEachLine) {
  const auto hosts = parse_host_file("# the lab\nhost1 slots=4\n\n  host2\t slots=2  # half of it\nhost3", "f");
  ASSERT_TRUE(hosts) << hosts.error().message;
  EXPECT_EQ(*hosts, (Hosts{{"host1", 4}, {"host2", 2}, {"host3", 1}}));
}

TEST(ParseHostFile, SaysWhichLineIsWrong) {
  const auto form = [](int line, const std::string& text) {
    return "--hostfile f: line " + std::to_string(line) +
           " must be HOST or HOST slots=N with 1 to 1024 slots, but is '" + text + "'";
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"host1\nhost2 4\n", form(2, "host2 4")},
      {"host1 slots=", form(1, "host1 slots=")},
      {"\n# x\nhost1 slots=0", form(3, "host1 slots=0")},
      {"host1 slots=1025", form(1, "host1 slots=1025")},
      {"host1 slots = 2", form(1, "host1 slots = 2")},
      {"host1 SLOTS=2", form(1, "host1 SLOTS=2")},
      {"host1:2", form(1, "host1:2")},
      {"", "--hostfile f names no host"},
      {"host1 slots=2 max_slots=4", form(1, "host1 slots=2 max_slots=4")},
      {"-v", form(1, "-v")},
      {"a\nb\na slots=2", "--hostfile f names a twice: give all its slots in one place"},
      {"# nobody\n", "--hostfile f names no host"},
  };
  for (const auto& [text, sentence] : cases) {
    const auto parsed = parse_host_file(text, "f");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().message, sentence);
  }
}

TEST(ReadHosts, TakesTheListOrTheFileOrNone) {
  const fakes::TemporaryFolder folder;
  const std::string file = folder.write("hosts", "b slots=2\n").string();
  EXPECT_EQ(read_hosts({}), Hosts{});
  EXPECT_EQ(read_hosts({.list = "a:3"}), (Hosts{{"a", 3}}));
  EXPECT_EQ(read_hosts({.file = file}), (Hosts{{"b", 2}}));
  EXPECT_EQ(read_hosts({.list = "a", .file = file}).error().message,
            "-H and --hostfile both name hosts: give one of them");
  const std::string none = folder.path() + "/none";
  EXPECT_EQ(read_hosts({.file = none}).error().message,
            "--hostfile " + none + ": cannot be read: No such file or directory");
}

RankSeat seat(const std::string& host, const std::string& local_rank, const std::string& local_size,
              const std::string& node, const std::string& nodes) {
  const bool is_remote = host != "localhost";
  return {.host = host,
          .address = is_remote ? host : "127.0.0.1",
          .is_remote = is_remote,
          .variables = {{"LOCAL_RANK", local_rank},
                        {"LOCAL_WORLD_SIZE", local_size},
                        {"NODE_RANK", node},
                        {"GROUP_RANK", node},
                        {"GROUP_WORLD_SIZE", nodes},
                        {"PET_NNODES", nodes},
                        {"PET_NODE_RANK", node},
                        {"PET_NPROC_PER_NODE", local_size}}};
}

TEST(SeatRanks, FillsTheFirstHostFirstAndLeavesOutHostsThatAreNotNeeded) {
  const Hosts hosts{{"localhost", 2}, {"b", 2}, {"c", 1}};
  EXPECT_EQ(seat_ranks(hosts, 3), (std::vector{seat("localhost", "0", "2", "0", "2"),
                                               seat("localhost", "1", "2", "0", "2"), seat("b", "0", "1", "1", "2")}));
  EXPECT_EQ(seat_ranks(hosts, 5)->size(), 5U);
  EXPECT_EQ(seat_ranks({{"ann@b", 1}}, 1)->front().address, "b");
}

TEST(SeatRanks, TakesOnlyThePlainNamesOfThisMachineForThisMachine) {
  for (const auto& [name, is_here] : {std::pair{"localhost", true},
                                      {"127.0.0.1", true},
                                      {"127.0.0.2", false},
                                      {"ann@localhost", false},
                                      {"localhost.lab", false}}) {
    const auto seats = seat_ranks({{name, 1}}, 1);
    ASSERT_TRUE(seats) << name;
    EXPECT_EQ(seats->front().is_remote, !is_here) << name;
    EXPECT_EQ(seats->front().host, name);
  }
}

TEST(SeatRanks, SaysThatTheSlotsDoNotSuffice) {
  const auto seats = seat_ranks({{"a", 4}, {"b", 2}}, 8);
  ASSERT_FALSE(seats);
  EXPECT_EQ(seats.error().kind, ErrorKind::invalid);
  EXPECT_EQ(seats.error().message,
            "8 ranks do not fit into 6 slots (a:4, b:2): give the hosts more slots, or ask for fewer ranks with -np");
}

TEST(AddOwnAddress, GivesThisMachinesSeatsAnAddressThatTheOthersReach) {
  auto here = *seat_ranks({{"localhost", 1}}, 1);
  EXPECT_TRUE(add_own_address(here));
  EXPECT_EQ(here.front().address, "127.0.0.1");
  auto seats = *seat_ranks({{"localhost", 1}, {"127.0.0.2", 1}}, 2);
  ASSERT_TRUE(add_own_address(seats));
  EXPECT_TRUE(seats[0].address.starts_with("127.")) << seats[0].address;
  EXPECT_EQ(seats[1].address, "127.0.0.2");
  auto unknown = *seat_ranks({{"localhost", 1}, {"no-such-host.invalid", 1}}, 2);
  const auto added = add_own_address(unknown);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().kind, ErrorKind::unavailable);
  EXPECT_TRUE(added.error().message.starts_with(
      "looking up host no-such-host.invalid, to find this machine's address for it: "))
      << added.error().message;
}

TEST(WithOneRankPerPod, MakesAPodOfEachRankThatAsksForNoGpu) {
  const nlohmann::json job{{"spec", {{"replicas", 2}, {"gpusPerPod", 4}}}};
  EXPECT_EQ(rank_count_of(job), 8);
  EXPECT_EQ(rank_count_of({{"spec", {{"replicas", 3}, {"gpusPerPod", 0}}}}), 3);
  EXPECT_EQ(with_one_rank_per_pod(job, 8), (nlohmann::json{{"spec", {{"replicas", 8}, {"gpusPerPod", 0}}}}));
}

}  // namespace
}  // namespace trainyard::cli

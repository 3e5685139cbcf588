#include "worker/dist/nccl_links.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace trainyard::dist {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view line_start = "node-3:71:93 [0] NCCL INFO ";

std::string line(std::string_view text) {
  return std::string{line_start} + std::string{text} + "\n";
}

struct LogLine {
  std::string name;
  std::string text;
  std::vector<NcclLink> links;  // of rank 0
};

class NcclLinks : public testing::TestWithParam<LogLine> {};

TEST_P(NcclLinks, AreReadFromNcclsLog) {
  EXPECT_EQ(parse_nccl_links(GetParam().text, 0), GetParam().links);
}

// The lines have the forms of NCCL 2.28.9.
INSTANTIATE_TEST_SUITE_P(
    Lines, NcclLinks,
    testing::Values(
        LogLine{"NoLine", "", {}}, LogLine{"AnotherSubject", line("Channel 00/02 : 0 1"), {}},
        LogLine{"PeerToPeer", line("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"), {{1, "P2P/CUMEM/read"}}},
        LogLine{
            "PeerToPeerInOneProcess", line("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer"), {{1, "P2P/direct"}}},
        LogLine{"SharedMemory", line("Channel 01 : 0[0] -> 1[1] via SHM/direct/direct"), {{1, "SHM/direct/direct"}}},
        LogLine{"Network", line("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"), {{8, "NET/IB/0/GDRDMA"}}},
        LogLine{"NetworkOfASharedDevice",
                line("Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/1(3)"),
                {{8, "NET/Socket/1(3)"}}},
        LogLine{"WhatComesIn", line("Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0"), {}},
        LogLine{"ItsOwnReceivingEnd", line("Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/0"), {}},
        LogLine{"AnotherRanksLink", line("Channel 00/0 : 2[0] -> 3[1] via P2P/IPC"), {}},
        LogLine{"OneLinkOfManyChannels",
                line("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC") + line("Channel 01/0 : 0[0] -> 1[1] via P2P/IPC") +
                    line("Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/0"),
                {{1, "P2P/IPC"}, {9, "NET/IB/0"}}},
        LogLine{"ALineThatIsStillWritten", std::string{line_start} + "Channel 00/0 : 0[0] -> 1[1] via P2P", {}},
        LogLine{"NumbersThatAreNone", line("Channel 00/0 : 0[0] -> x[1] via P2P/IPC"), {}},
        LogLine{"ANumberBeyondAll", line("Channel 00/0 : 0[0] -> 99999999999999999999[1] via P2P/IPC"), {}},
        LogLine{"ALineOfWindows", line("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\r"), {{1, "P2P/IPC"}}},
        LogLine{"ANumberWithMoreBehindIt", line("Channel 00/0 : 0[0] -> 1x[1] via P2P/IPC"), {}},
        LogLine{"ANumberAlone", line("Channel 00/0 : 0 -> 1 via P2P/IPC"), {}},
        LogLine{"ItsOwnRank", line("Channel 00/0 : 0[0] -> 0[0] via P2P/IPC"), {}},
        LogLine{"TwoTransportsToOnePeer",
                line("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC") + line("Channel 01/0 : 0[0] -> 1[1] via SHM/direct"),
                {{1, "P2P/IPC"}, {1, "SHM/direct"}}},
        LogLine{"NoTransport", line("Channel 00/0 : 0[0] -> 1[1] via "), {}}),
    [](const auto& info) { return info.param.name; });

TEST(NcclLinks, AreShownInOneLine) {
  EXPECT_EQ(to_text(std::vector<NcclLink>{{1, "P2P/IPC"}, {9, "NET/IB/0"}}), "P2P/IPC to 1, NET/IB/0 to 9");
}

TEST(NetworkInPodWarning, NamesAPeerOfTheSamePodThatIsReachedOverTheNetwork) {
  const std::vector<rank::Seat> seats{{"a", 0}, {"a", 0}, {"a", 2}, {"b", 3}};
  EXPECT_THAT(network_in_pod_warning(std::vector<NcclLink>{{1, "NET/Socket/0"}}, 0, seats).value_or(""),
              HasSubstr("rank 0 sends to rank 1 of the same pod on node a over the network (NET/Socket/0)"));
  EXPECT_THAT(network_in_pod_warning(std::vector<NcclLink>{{3, "NET/IB/0"}, {1, "P2P/IPC"}, {1, "NET/IB/0"}}, 0, seats)
                  .value_or(""),
              HasSubstr("rank 0 sends to rank 1 of the same pod on node a over the network (NET/IB/0)"));
  EXPECT_EQ(network_in_pod_warning(std::vector<NcclLink>{{1, "P2P/IPC"}}, 0, seats), std::nullopt);
  EXPECT_EQ(network_in_pod_warning(std::vector<NcclLink>{{-1, "NET/Socket/0"}}, 0, seats), std::nullopt) << "no rank";
  EXPECT_EQ(network_in_pod_warning(std::vector<NcclLink>{{2, "NET/Socket/0"}}, 0, seats), std::nullopt) << "other pod";
  EXPECT_EQ(network_in_pod_warning(std::vector<NcclLink>{{3, "NET/Socket/0"}}, 0, seats), std::nullopt) << "other node";
  EXPECT_EQ(network_in_pod_warning(std::vector<NcclLink>{{4, "NET/Socket/0"}}, 0, seats), std::nullopt) << "no seat";
}

class NcclLogTest : public testing::Test {
 protected:
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs.
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(name);
  }
  static std::string variable(const char* name) {
    const char* value = getenv(name);
    return value != nullptr ? value : "";
  }
  // NOLINTEND(concurrency-mt-unsafe)
};

TEST_F(NcclLogTest, HoldsWhatIsWrittenToTheFileThatNcclOpens) {
  const NcclLog log;
  EXPECT_EQ(variable("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(variable("NCCL_DEBUG_SUBSYS"), "INIT");
  EXPECT_THAT(log.text(), IsEmpty());
  const int file = open(variable("NCCL_DEBUG_FILE").c_str(), O_WRONLY | O_TRUNC);
  ASSERT_GE(file, 0);
  const std::string text = line("Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct");
  ASSERT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_THAT(parse_nccl_links(log.text(), 0), ElementsAre(NcclLink{1, "SHM/direct/direct"}));
  EXPECT_THAT(log.text(), HasSubstr("node-3"));  // Reading does not use it up.
  close(file);
}

TEST_F(NcclLogTest, LeavesALogThatTheUserAskedForAlone) {
  setenv("NCCL_DEBUG", "WARN", 1);  // NOLINT(concurrency-mt-unsafe)
  const NcclLog log;
  EXPECT_EQ(variable("NCCL_DEBUG"), "WARN");
  EXPECT_EQ(variable("NCCL_DEBUG_FILE"), "");
  EXPECT_THAT(log.text(), IsEmpty());
}

TEST_F(NcclLogTest, LeavesASwitchThatTheUserHasEmptiedAndTheSubjectsThatTheUserHasChosen) {
  setenv("NCCL_DEBUG", "", 1);  // NOLINT(concurrency-mt-unsafe)
  {
    const NcclLog log;
    EXPECT_EQ(variable("NCCL_DEBUG_FILE"), "");
  }
  clear();
  setenv("NCCL_DEBUG_SUBSYS", "ALL", 1);  // NOLINT(concurrency-mt-unsafe)
  const NcclLog log;
  EXPECT_EQ(variable("NCCL_DEBUG_SUBSYS"), "ALL");
  EXPECT_EQ(variable("NCCL_DEBUG"), "INFO");
}

TEST_F(NcclLogTest, LeavesAFileThatTheUserNamedAlone) {
  setenv("NCCL_DEBUG_FILE", "/tmp/nccl.%p", 1);  // NOLINT(concurrency-mt-unsafe)
  const NcclLog log;
  EXPECT_EQ(variable("NCCL_DEBUG"), "");
  EXPECT_EQ(variable("NCCL_DEBUG_FILE"), "/tmp/nccl.%p");
  EXPECT_THAT(log.text(), IsEmpty());
}

}  // namespace
}  // namespace trainyard::dist

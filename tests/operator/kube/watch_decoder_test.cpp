#include "operator/kube/watch_decoder.hpp"

#include <gtest/gtest.h>

namespace trainyard::kube {
namespace {

const std::string added_event = R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})"
                                "\n";
const std::string deleted = R"({"type":"DELETED","object":{"metadata":{"name":"a"}}})"
                            "\n";

TEST(WatchDecoder, DecodesALineHoweverItsBytesAreCut) {
  for (std::size_t cut = 0; cut <= added_event.size(); ++cut) {
    WatchDecoder decoder{"watch pods"};
    auto first = decoder.push(std::string_view{added_event}.substr(0, cut));
    auto second = decoder.push(std::string_view{added_event}.substr(cut));
    ASSERT_EQ(first.events.size() + second.events.size(), 1U) << "cut at " << cut;
    EXPECT_FALSE(first.error || second.error);
    EXPECT_FALSE(decoder.has_torn_line());
  }
}

TEST(WatchDecoder, KnowsEveryType) {
  WatchDecoder decoder{"watch pods"};
  const auto decoded = decoder.push(
      "{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"MODIFIED\",\"object\":{}}\n\n"
      "{\"type\":\"DELETED\",\"object\":{}}\n{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":"
      "\"9\"}}}\n");
  ASSERT_EQ(decoded.events.size(), 4U);
  EXPECT_EQ(decoded.events[0].type, WatchEventType::added);
  EXPECT_EQ(decoded.events[1].type, WatchEventType::modified);
  EXPECT_EQ(decoded.events[2].type, WatchEventType::deleted);
  EXPECT_EQ(decoded.events[3].type, WatchEventType::bookmark);
  EXPECT_EQ(decoded.events[3].object["metadata"]["resourceVersion"], "9");
}

TEST(WatchDecoder, KnowsThatTheStreamEndedWithinALine) {
  WatchDecoder decoder{"watch pods"};
  const auto decoded = decoder.push(added_event + deleted.substr(0, 20));
  EXPECT_EQ(decoded.events.size(), 1U);
  EXPECT_TRUE(decoder.has_torn_line());
}

TEST(WatchDecoder, GivesTheEventsBeforeAnErrorEvent) {
  WatchDecoder decoder{"watch pods"};
  const auto decoded =
      decoder.push(added_event +
                   R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})"
                   "\n" +
                   deleted);
  EXPECT_EQ(decoded.events.size(), 1U);
  ASSERT_TRUE(decoded.error);
  EXPECT_EQ(decoded.error->kind, ErrorKind::gone);
  EXPECT_EQ(decoded.error->message, "watch pods: too old (HTTP 410 Expired)");
}

TEST(WatchDecoder, RefusesWhatIsNoEvent) {
  for (const char* line : {"x\n", "[]\n", "{}\n", "{\"type\":\"ADDED\"}\n", "{\"type\":\"OTHER\",\"object\":{}}\n",
                           "{\"type\":1,\"object\":{}}\n", "{\"type\":\"ADDED\",\"object\":[]}\n"}) {
    WatchDecoder decoder{"watch pods"};
    const auto decoded = decoder.push(line);
    ASSERT_TRUE(decoded.error) << line;
    EXPECT_EQ(decoded.error->kind, ErrorKind::corrupt) << line;
  }
}

TEST(WatchDecoder, RefusesALineWithoutEnd) {
  WatchDecoder decoder{"watch pods", 100};
  EXPECT_FALSE(decoder.push(std::string(60, 'x')).error);
  EXPECT_FALSE(decoder.push(std::string(40, 'x')).error) << "this is as long as a line may be";
  const auto decoded = decoder.push("x");
  ASSERT_TRUE(decoded.error);
  EXPECT_EQ(decoded.error->kind, ErrorKind::corrupt);
}

TEST(WatchDecoder, BoundsEachLineAndNotTheStream) {
  WatchDecoder decoder{"watch pods", added_event.size()};
  for (int count = 0; count < 10; ++count) {
    const auto decoded = decoder.push(added_event);
    ASSERT_FALSE(decoded.error) << count;
    EXPECT_EQ(decoded.events.size(), 1U) << count;
  }
}

TEST(WatchDecoder, LeavesManagedFieldsOut) {
  WatchDecoder decoder{"watch pods"};
  const auto decoded =
      decoder.push(R"({"type":"ADDED","object":{"metadata":{"name":"a","managedFields":[{"manager":"x"}]}}})"
                   "\n");
  ASSERT_EQ(decoded.events.size(), 1U);
  EXPECT_EQ(decoded.events[0].object, json::parse(R"({"metadata":{"name":"a"}})"));
}

}  // namespace
}  // namespace trainyard::kube

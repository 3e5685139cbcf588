#include "operator/resource/node.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::resource {
namespace {

using nlohmann::json;

TEST(ParseNode, KeepsWhatPlanningReads) {
  struct Case {
    std::string_view status;  ///< The status of the condition Ready.
    bool is_ready;
    bool is_unreachable;
  };
  for (const Case& c : {Case{"True", true, false}, Case{"False", false, false}, Case{"Unknown", false, true}}) {
    const auto node =
        parse_node({{"metadata",
                     {{"name", "node1"},
                      {"uid", "u"},
                      {"labels", {{"kubernetes.io/hostname", "host1"}, {"nvidia.com/gpu.product", "H200"}}},
                      {"annotations", {{"volumes.kubernetes.io/x", "y"}}}}},
                    {"status",
                     {{"conditions", json::array({{{"type", "MemoryPressure"}, {"status", "True"}},
                                                  {{"type", "Ready"}, {"status", c.status}},
                                                  {{"type", "DiskPressure"}, {"status", "False"}}})}}}});
    ASSERT_TRUE(node) << node.error().message;
    EXPECT_EQ(*node, (Node{.metadata = {.name = "node1", .uid = "u"},
                           .host_name = "host1",
                           .is_ready = c.is_ready,
                           .is_unreachable = c.is_unreachable}));
  }
}

TEST(ParseNode, TakesANodeThatSaysNothingYetForNotReady) {
  const auto node = parse_node({{"metadata", {{"name", "node1"}, {"uid", "u"}}}});
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(*node, (Node{.metadata = {.name = "node1", .uid = "u"}}));
}

TEST(ParseNode, TakesAStatusOfAnotherShapeForNone) {
  for (const json& status : {json("Ready"), json::object(), json{{"conditions", "Ready"}},
                             json{{"conditions", json::array({"Ready", {{"status", "True"}}, {{"type", "Ready"}}})}}}) {
    const auto node = parse_node({{"metadata", {{"name", "node1"}, {"uid", "u"}}}, {"status", status}});
    ASSERT_TRUE(node) << status;
    EXPECT_EQ(*node, (Node{.metadata = {.name = "node1", .uid = "u"}})) << status;
  }
}

}  // namespace
}  // namespace trainyard::resource

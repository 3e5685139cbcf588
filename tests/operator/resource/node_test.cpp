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
                                                  {{"type", "Ready"}, {"status", c.status}}})}}}});
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

}  // namespace
}  // namespace trainyard::resource

#include "operator/control/lease.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::control {
namespace {

using nlohmann::json;
using std::chrono::seconds;

TEST(Lease, ReadsBackWhatItWrites) {
  const Time time{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};
  const Lease lease{.name_space = "ns",
                    .name = "op",
                    .resource_version = "7",
                    .holder = "me",
                    .duration = seconds{4},
                    .transitions = 3,
                    .acquired = time,
                    .renewed = time + std::chrono::milliseconds{250}};
  json object = to_json(lease);
  EXPECT_EQ(object["spec"]["leaseDurationSeconds"], 4);
  object["metadata"]["uid"] = "u";
  EXPECT_EQ(parse_lease(object), lease);
}

TEST(Lease, ForgivesOneMadeByHand) {
  const json object{{"metadata", {{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}, {"resourceVersion", "7"}}}};
  EXPECT_EQ(parse_lease(object), (Lease{.name_space = "ns", .name = "op", .resource_version = "7"}));
}

TEST(Lease, NamesATimeThatIsNone) {
  const json object{{"metadata", {{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}}},
                    {"spec", {{"renewTime", "yesterday"}}}};
  const auto lease = parse_lease(object);
  ASSERT_FALSE(lease);
  EXPECT_NE(lease.error().message.find("spec.renewTime"), std::string::npos);
}

}  // namespace
}  // namespace trainyard::control

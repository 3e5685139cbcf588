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
  EXPECT_EQ(object, (json{{"apiVersion", "coordination.k8s.io/v1"},
                          {"kind", "Lease"},
                          {"metadata", {{"name", "op"}, {"namespace", "ns"}, {"resourceVersion", "7"}}},
                          {"spec",
                           {{"holderIdentity", "me"},
                            {"leaseDurationSeconds", 4},
                            {"leaseTransitions", 3},
                            {"acquireTime", "2026-01-02T00:00:00.000000Z"},
                            {"renewTime", "2026-01-02T00:00:00.250000Z"}}}}));
  object["metadata"]["uid"] = "u";
  EXPECT_EQ(parse_lease(object), lease);
}

TEST(Lease, ForgivesOneMadeByHand) {
  const json object{{"metadata", {{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}, {"resourceVersion", "7"}}}};
  EXPECT_EQ(parse_lease(object), (Lease{.name_space = "ns", .name = "op", .resource_version = "7"}));
}

TEST(Lease, ForgivesFieldsOfAnotherType) {
  const json metadata{{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}, {"resourceVersion", "7"}};
  const Lease empty{.name_space = "ns", .name = "op", .resource_version = "7"};
  for (const json& spec :
       {json("none"), json{{"holderIdentity", 7}, {"leaseDurationSeconds", "4"}, {"leaseTransitions", 1.5}},
        json{{"acquireTime", nullptr}, {"renewTime", nullptr}}}) {
    EXPECT_EQ(parse_lease({{"metadata", metadata}, {"spec", spec}}), empty) << spec;
  }
}

TEST(Lease, NamesATimeThatIsNone) {
  for (const char* field : {"acquireTime", "renewTime"}) {
    for (const json& value : {json("yesterday"), json(7)}) {
      const json object{{"metadata", {{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}}}, {"spec", {{field, value}}}};
      const auto lease = parse_lease(object);
      ASSERT_FALSE(lease);
      EXPECT_NE(lease.error().message.find(std::string{"spec."} + field), std::string::npos) << value;
    }
  }
}

}  // namespace
}  // namespace trainyard::control

#include "operator/resource/mount_failure.hpp"

#include <gtest/gtest.h>

namespace trainyard::resource {
namespace {

using nlohmann::json;

TEST(ParseMountFailure, IsFoundByThePodThatItIsAbout) {
  const auto failure = parse_mount_failure(json::parse(R"({
      "metadata": {"name": "job-abcd-1-0.18", "namespace": "ns", "uid": "e0", "resourceVersion": "7",
                   "labels": {"a": "b"}, "annotations": {"c": "d"}},
      "reason": "FailedMount", "note": "MountVolume.SetUp failed for volume \"x\" : secret \"y\" not found",
      "regarding": {"kind": "Pod", "namespace": "ns", "name": "job-abcd-1-0", "uid": "p0"}})"));
  ASSERT_TRUE(failure) << failure.error().message;
  EXPECT_EQ(*failure, (MountFailure{.metadata = {.name = "job-abcd-1-0.18",
                                                 .name_space = "ns",
                                                 .uid = "e0",
                                                 .resource_version = "7",
                                                 .controller = api::OwnerReference{.uid = "p0", .is_controller = true}},
                                    .pod = "job-abcd-1-0",
                                    .message = "MountVolume.SetUp failed for volume \"x\" : secret \"y\" not found"}));
}

TEST(ParseMountFailure, RefusesWhatIsNoEvent) {
  for (const json& object : {json::object(), json{{"metadata", {{"name", "e"}, {"uid", "u"}}}, {"note", 3}}}) {
    EXPECT_FALSE(parse_mount_failure(object)) << object;
  }
}

}  // namespace
}  // namespace trainyard::resource

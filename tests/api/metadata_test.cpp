#include "api/metadata.hpp"

#include <gtest/gtest.h>

#include "common/time_text.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

TEST(ParseMetadata, KeepsWhatWeReadAndDropsTheRest) {
  const auto metadata = parse_metadata(json::parse(R"({"metadata": {
      "name": "a", "namespace": "ns", "uid": "u1", "resourceVersion": "12", "generation": 3,
      "labels": {"x": "y"}, "annotations": {"k": "v"}, "managedFields": [{}],
      "creationTimestamp": "2026-11-21T10:00:00Z",
      "deletionTimestamp": "2026-11-21T10:00:05Z", "deletionGracePeriodSeconds": 5, "finalizers": ["a/b", "c/d"],
      "ownerReferences": [{"uid": "other"}, {"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob",
          "uid": "owner", "name": "job", "controller": true}, {"uid": "another"}]}})"));
  ASSERT_TRUE(metadata) << metadata.error().message;
  EXPECT_EQ(*metadata, (Metadata{.name = "a",
                                 .name_space = "ns",
                                 .uid = "u1",
                                 .resource_version = "12",
                                 .generation = 3,
                                 .labels = {{"x", "y"}},
                                 .annotations = {{"k", "v"}},
                                 .creation_time = *parse_rfc3339("2026-11-21T10:00:00Z"),
                                 .deletion_time = *parse_rfc3339("2026-11-21T10:00:05Z"),
                                 .deletion_grace = std::chrono::seconds{5},
                                 .finalizers = {"a/b", "c/d"},
                                 .controller = OwnerReference{.api_version = "trainyard.dev/v1alpha1",
                                                              .kind = "TrainingJob",
                                                              .name = "job",
                                                              .uid = "owner",
                                                              .is_controller = true}}));
}

struct WrongMetadata {
  std::string_view object;
  std::string_view message;
};
class ParseMetadataRefuses : public testing::TestWithParam<WrongMetadata> {};

TEST_P(ParseMetadataRefuses, AndNamesTheField) {
  const auto metadata = parse_metadata(json::parse(GetParam().object));
  ASSERT_FALSE(metadata);
  EXPECT_EQ(metadata.error().kind, ErrorKind::invalid);
  EXPECT_EQ(metadata.error().message.substr(0, GetParam().message.size()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseMetadataRefuses,
    testing::Values(WrongMetadata{"[]", "the object: must be an object, got []"},
                    WrongMetadata{"{}", "metadata: must be given"},
                    WrongMetadata{R"({"metadata": 1})", "metadata: must be an object, got 1"},
                    WrongMetadata{R"({"metadata": {"uid": "u"}})", "metadata.name: must be given"},
                    WrongMetadata{R"({"metadata": {"name": "a"}})", "metadata.uid: must be given"},
                    WrongMetadata{R"({"metadata": {"name": 7, "uid": "u"}})", "metadata.name: must be a string, got 7"},
                    WrongMetadata{R"({"metadata": {"name": "a", "uid": "u", "labels": {"x": 1}}})",
                                  "metadata.labels.x: must be a string, got 1"},
                    WrongMetadata{R"({"metadata": {"name": "a", "uid": "u", "creationTimestamp": "today"}})",
                                  "metadata.creationTimestamp: "},
                    WrongMetadata{R"({"metadata": {"name": "a", "uid": "u", "ownerReferences": [{}]}})",
                                  "metadata.ownerReferences[0].uid: must be given"}));

}  // namespace
}  // namespace trainyard::api

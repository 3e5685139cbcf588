#include "operator/kube/request_path.hpp"

#include <gtest/gtest.h>

namespace trainyard::kube {
namespace {

TEST(RequestPath, NamesObjectsOfEveryGroupAndScope) {
  EXPECT_EQ(collection_path(pods, ""), "/api/v1/pods");
  EXPECT_EQ(collection_path(pods, "a"), "/api/v1/namespaces/a/pods");
  EXPECT_EQ(object_path(training_jobs, "a", "b"), "/apis/trainyard.dev/v1alpha1/namespaces/a/trainingjobs/b");
  EXPECT_EQ(object_path(nodes, "", "n1"), "/api/v1/nodes/n1");
  EXPECT_EQ(object_path(nodes, "ignored", "n1"), "/api/v1/nodes/n1");
}

TEST(RequestPath, EncodesWhatCouldLeaveItsPlace) {
  EXPECT_EQ(object_path(pods, "a", "../../nodes/x?y"), "/api/v1/namespaces/a/pods/..%2F..%2Fnodes%2Fx%3Fy");
  EXPECT_EQ(collection_path(pods, "a/../b"), "/api/v1/namespaces/a%2F..%2Fb/pods");
  EXPECT_EQ(object_path(pods, "a", "Az09-._~ %+\u00e9"), "/api/v1/namespaces/a/pods/Az09-._~%20%25%2B%C3%A9");
}

TEST(ListPath, AsksForAPage) {
  ListOptions options{
      .name_space = "a", .label_selector = "trainyard.dev/job,x!=1", .resource_version = "0", .limit = 500};
  EXPECT_EQ(list_path(pods, options),
            "/api/v1/namespaces/a/pods?labelSelector=trainyard.dev%2Fjob%2Cx%21%3D1&resourceVersion=0&limit=500");
  options.continue_token = "t=";
  EXPECT_EQ(list_path(pods, options),
            "/api/v1/namespaces/a/pods?labelSelector=trainyard.dev%2Fjob%2Cx%21%3D1&continue=t%3D&limit=500");
  EXPECT_EQ(list_path(nodes, {}), "/api/v1/nodes");
  EXPECT_EQ(list_path(events, {.field_selector = "reason=FailedMount"}),
            "/apis/events.k8s.io/v1/events?fieldSelector=reason%3DFailedMount");
}

TEST(WatchPath, AsksForBookmarksFromAVersionOn) {
  EXPECT_EQ(watch_path(pods, {.name_space = "a",
                              .label_selector = "l",
                              .field_selector = "reason=FailedMount",
                              .resource_version = "7",
                              .timeout = std::chrono::seconds{30}}),
            "/api/v1/namespaces/a/"
            "pods?watch=true&allowWatchBookmarks=true&labelSelector=l&fieldSelector=reason%3DFailedMount&"
            "resourceVersion=7&timeoutSeconds=30");
}

TEST(CreatePath, SaysDryAndStrict) {
  EXPECT_EQ(create_path(pods, "a", {}), "/api/v1/namespaces/a/pods");
  EXPECT_EQ(create_path(pods, "a", {.is_dry_run = true, .is_strict = true}),
            "/api/v1/namespaces/a/pods?dryRun=All&fieldValidation=Strict");
}

TEST(LogPath, NamesTheContainer) {
  EXPECT_EQ(log_path("a", "p", {.container = "worker", .is_following = true}),
            "/api/v1/namespaces/a/pods/p/log?container=worker&follow=true");
  EXPECT_EQ(log_path("a", "p", {}), "/api/v1/namespaces/a/pods/p/log");
}

}  // namespace
}  // namespace trainyard::kube

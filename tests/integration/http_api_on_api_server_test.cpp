#include <gmock/gmock.h>
#include <httplib.h>

#include <atomic>
#include <thread>

#include "common/try.hpp"
#include "operator/control/cache_sink.hpp"
#include "operator/control/informer.hpp"
#include "tests/integration/api_test.hpp"
#include "tests/integration/eventually.hpp"

namespace trainyard::integration {
namespace {

using kube::json;
using testing::HasSubstr;

constexpr kube::ResourceType config_maps{"", "v1", "configmaps", "ConfigMap"};

class HttpApiOnApiServer : public ApiTest {
 protected:
  json config_map(const std::string& name) const {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", name}, {"namespace", name_space_}, {"labels", {{"mine", "yes"}}}}}};
  }
  void create(const std::string& name) {
    const auto created = api_->create(config_maps, name_space_, config_map(name));
    ASSERT_TRUE(created) << created.error().message;
  }
};

TEST_F(HttpApiOnApiServer, ServesSomebodyWithATokenAndRefusesSomebodyWithoutRights) {
  EXPECT_TRUE(connect(control_plane().token_kubeconfig())->list(kube::pods, {.name_space = name_space_}));
  const auto refused = connect(control_plane().nobody_kubeconfig())->list(kube::pods, {.name_space = name_space_});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::forbidden);
  EXPECT_THAT(refused.error().message, HasSubstr("User \"nobody\" cannot list resource \"pods\""));
}

TEST_F(HttpApiOnApiServer, DistinguishesTheServersRefusals) {
  create("a");
  EXPECT_EQ(api_->get(config_maps, name_space_, "none").error().kind, ErrorKind::not_found);
  EXPECT_EQ(api_->create(config_maps, name_space_, config_map("a")).error().kind, ErrorKind::already_exists);
  EXPECT_EQ(api_->create(config_maps, name_space_, config_map("A_")).error().kind, ErrorKind::invalid);
  json stale = config_map("a");
  stale["metadata"]["resourceVersion"] = "1";
  EXPECT_EQ(api_->update(config_maps, name_space_, stale).error().kind, ErrorKind::conflict);
  EXPECT_EQ(api_->remove(config_maps, name_space_, "a", {.uid = "another"}).error().kind, ErrorKind::conflict);
  json unknown_field = config_map("b");
  unknown_field["datta"] = json::object();
  const auto strict = api_->create(config_maps, name_space_, unknown_field, {.is_dry_run = true, .is_strict = true});
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().kind, ErrorKind::invalid);
  EXPECT_THAT(strict.error().message, HasSubstr("unknown field \"datta\""));
  EXPECT_EQ(api_->get(config_maps, name_space_, "b").error().kind, ErrorKind::not_found);
}

TEST_F(HttpApiOnApiServer, PatchesBothWays) {
  create("a");
  const auto merged = api_->patch(config_maps, name_space_, "a", kube::PatchType::merge, {{"data", {{"x", "1"}}}});
  ASSERT_TRUE(merged) << merged.error().message;
  const auto patched = api_->patch(config_maps, name_space_, "a", kube::PatchType::json_patch,
                                   json::array({{{"op", "add"}, {"path", "/data/y"}, {"value", "2"}}}));
  ASSERT_TRUE(patched) << patched.error().message;
  EXPECT_EQ((*patched)["data"], (json{{"x", "1"}, {"y", "2"}}));
}

TEST_F(HttpApiOnApiServer, ListsPagesOfOneVersion) {
  for (const char* name : {"a", "b", "c"}) create(name);
  kube::ListOptions options{.name_space = name_space_, .label_selector = "mine=yes", .limit = 2};
  const auto first = api_->list(config_maps, options);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->items.size(), 2U);
  create("d");
  options.continue_token = first->continue_token;
  const auto second = api_->list(config_maps, options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->items.size(), 1U) << "what came after the first page is not in it";
  EXPECT_EQ(second->resource_version, first->resource_version);
}

/// Compacts the history, as the API server makes etcd do every five minutes.
void compact(const std::string& etcd) {
  httplib::Client client{etcd};
  const auto status = client.Post("/v3/maintenance/status", "{}", "application/json");
  ASSERT_TRUE(status);
  const std::string revision = json::parse(status->body)["header"]["revision"];
  const auto compacted =
      client.Post("/v3/kv/compaction", json{{"revision", revision}, {"physical", true}}.dump(), "application/json");
  ASSERT_TRUE(compacted);
  ASSERT_EQ(compacted->status, 200) << compacted->body;
}

struct Thing {
  api::Metadata metadata;
};

Result<Thing> parse_thing(const json& object) {
  auto metadata = TRY(api::parse_metadata(object));
  return Thing{std::move(metadata)};
}

TEST_F(HttpApiOnApiServer, KeepsAnInformerUpToDateThroughADeadServerAndAForgottenHistory) {
  for (const char* name : {"a", "b", "c", "d", "e"}) create(name);
  control::ObjectCache<Thing> cache;
  std::atomic<bool> is_synced = false;
  control::CacheSink<Thing> sink{cache, name_space_, parse_thing, [](const Thing&) {}};
  control::Informer informer{
      *api_, config_maps, {.name_space = name_space_, .label_selector = "mine=yes", .page_objects = 2}, sink, [&] {
        is_synced = true;
      }};
  const std::jthread thread{[&](const std::stop_token& stop) { informer.run(stop); }};
  ASSERT_TRUE(eventually([&] { return is_synced.load(); }));
  EXPECT_EQ(cache.size(), 5U);

  create("f");
  ASSERT_TRUE(api_->remove(config_maps, name_space_, "a"));
  const auto has = [&](const std::string& name) { return cache.find({name_space_, name}).has_value(); };
  EXPECT_TRUE(eventually([&] { return has("f") && !has("a"); }));

  const auto killed = control_plane().kill_api_server();
  ASSERT_TRUE(killed) << killed.error().message;
  // The informer's next watch may come before or after this; both must end well.
  ASSERT_TRUE(eventually([&] { return api_->create(config_maps, name_space_, config_map("g")).has_value(); }));
  ASSERT_TRUE(eventually([&] { return api_->remove(config_maps, name_space_, "b").has_value(); }));
  compact(control_plane().etcd());
  EXPECT_TRUE(eventually([&] { return has("g") && !has("b"); }));
  EXPECT_GE(informer.watch_restarts(), 1);
}

TEST_F(HttpApiOnApiServer, IsGoneForAWatchFromAForgottenVersion) {
  create("a");
  compact(control_plane().etcd());
  std::stop_source stop;
  const auto ended = api_->watch(
      config_maps, {.name_space = name_space_, .label_selector = {}, .field_selector = {}, .resource_version = "1"},
      [](const kube::WatchEvent&) {}, stop.get_token());
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, ErrorKind::gone) << ended.error().message;
}

}  // namespace
}  // namespace trainyard::integration

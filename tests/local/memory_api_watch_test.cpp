#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "local/memory_api.hpp"
#include "tests/fakes/fake_clock.hpp"

namespace trainyard::local {
namespace {

using fakes::FakeClock;
using kube::WatchEvent;
using kube::WatchEventType;
using namespace std::chrono_literals;

json labelled_pod(const std::string& name, const json& labels = json::object()) {
  return {{"metadata", {{"name", name}, {"labels", labels}}},
          {"spec", {{"containers", json::array({{{"name", "worker"}}})}}}};
}

std::string text_of(const WatchEvent& event) {
  const json& metadata = event.object.at("metadata");
  switch (event.type) {
    case WatchEventType::added:
      return "+" + metadata.at("name").get<std::string>();
    case WatchEventType::modified:
      return "~" + metadata.at("name").get<std::string>();
    case WatchEventType::deleted:
      return "-" + metadata.at("name").get<std::string>();
    case WatchEventType::bookmark:
      return "@" + metadata.at("resourceVersion").get<std::string>();
  }
  return "";
}

class MemoryApiWatchTest : public testing::Test {
 protected:
  void create(const json& pod) { ASSERT_TRUE(api_.create(kube::pods, "default", pod)); }
  void label(const std::string& name, const json& labels) {
    ASSERT_TRUE(api_.patch(kube::pods, "default", name, kube::PatchType::merge, {{"metadata", {{"labels", labels}}}}));
  }
  /// The events after `version` until now: a watch that times out at once.
  std::vector<std::string> events_after(const std::string& version, const std::string& labels = "") {
    std::vector<std::string> events;
    const auto ended = api_.watch(
        kube::pods,
        {.name_space = {}, .label_selector = labels, .field_selector = {}, .resource_version = version, .timeout = 0s},
        [&](const WatchEvent& event) { events.push_back(text_of(event)); }, {});
    EXPECT_TRUE(ended) << ended.error().message;
    return events;
  }

  FakeClock clock_;
  MemoryApi api_{clock_, {.history_events_max = 4}};
};

using Events = std::vector<std::string>;

TEST_F(MemoryApiWatchTest, SendsWhatHappenedAfterAVersionAndEndsWithABookmark) {
  create(labelled_pod("a"));
  create(labelled_pod("b"));
  label("a", {{"x", "y"}});
  ASSERT_TRUE(api_.remove(kube::pods, "default", "b"));
  EXPECT_EQ(events_after("1"), (Events{"+b", "~a", "-b", "@4"}));
  EXPECT_EQ(events_after("4"), (Events{"@4"}));
}

TEST_F(MemoryApiWatchTest, WithoutAVersionSendsTheExistingObjectsFirst) {
  create(labelled_pod("a"));
  label("a", {{"x", "y"}});
  EXPECT_EQ(events_after(""), (Events{"+a", "@2"}));
  EXPECT_EQ(events_after("0"), (Events{"+a", "@2"}));
}

TEST_F(MemoryApiWatchTest, AnObjectThatLeavesTheSelectionIsSentAsDeleted) {
  create(labelled_pod("a", {{"team", "vision"}}));
  label("a", {{"team", "speech"}});
  label("a", {{"team", "vision"}});
  EXPECT_EQ(events_after("1", "team=vision"), (Events{"-a", "+a", "@3"}));
}

TEST_F(MemoryApiWatchTest, AnObjectThatIsDeletedOrLeavesTheSelectionHasTheVersionOfThatChange) {
  create(labelled_pod("a", {{"team", "vision"}}));
  create(labelled_pod("b", {{"team", "vision"}}));
  label("a", {{"team", "speech"}});
  ASSERT_TRUE(api_.remove(kube::pods, "default", "b"));
  std::vector<std::string> versions;
  const auto note_version = [&](const WatchEvent& event) {
    if (event.type == WatchEventType::deleted)
      versions.push_back(event.object.at("metadata").at("resourceVersion").get<std::string>());
  };
  ASSERT_TRUE(api_.watch(kube::pods, {.label_selector = "team=vision", .resource_version = "2", .timeout = 0s},
                         note_version, {}));
  EXPECT_EQ(versions, (std::vector<std::string>{"3", "4"}))
      << "a watch continues from the last version that it was told";
}

TEST_F(MemoryApiWatchTest, AVersionBeforeTheKeptHistoryIsGone) {
  for (const auto* name : {"a", "b", "c", "d", "e", "f"}) create(labelled_pod(name));
  const auto ignore = [](const WatchEvent&) {};
  EXPECT_EQ(api_.watch(kube::pods, {.resource_version = "1", .timeout = 0s}, ignore, {}).error().kind, ErrorKind::gone);
  EXPECT_EQ(events_after("2"), (Events{"+c", "+d", "+e", "+f", "@6"}));
  api_.compact();
  EXPECT_EQ(api_.watch(kube::pods, {.resource_version = "5", .timeout = 0s}, ignore, {}).error().kind, ErrorKind::gone);
  EXPECT_EQ(events_after("6"), (Events{"@6"}));
}

TEST_F(MemoryApiWatchTest, AVersionThatIsNoNumberIsInvalid) {
  EXPECT_EQ(api_.watch(kube::pods, {.resource_version = "x"}, [](const WatchEvent&) {}, {}).error().kind,
            ErrorKind::invalid);
}

TEST_F(MemoryApiWatchTest, AStopWakesAWatchThatWaits) {
  std::promise<void> is_watching;
  Result<void> ended;
  {
    std::jthread watcher{[&](std::stop_token stop) {
      ended = api_.watch(
          kube::pods, {}, [&](const WatchEvent&) { is_watching.set_value(); }, stop);
    }};
    create(labelled_pod("a"));
    is_watching.get_future().wait();
  }
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, ErrorKind::cancelled);
}

TEST_F(MemoryApiWatchTest, BookmarksComeWhileNothingHappens) {
  MemoryApi api{clock_, {.bookmark_interval = 1ms}};
  std::stop_source stop;
  int bookmarks = 0;
  const auto ended = api.watch(
      kube::pods, {.resource_version = "0"},
      [&](const WatchEvent& event) {
        EXPECT_EQ(text_of(event), "@0");
        if (++bookmarks == 3) stop.request_stop();
      },
      stop.get_token());
  EXPECT_EQ(ended.error().kind, ErrorKind::cancelled);
}

TEST_F(MemoryApiWatchTest, ConcurrentWritersAreSeenInOneOrderByEveryWatcher) {
  MemoryApi api{clock_};
  constexpr int writers = 4;
  constexpr int pods_of_each = 25;
  const auto watch_all = [&api](std::vector<std::string>& versions) {
    std::stop_source stop;
    const auto ended = api.watch(
        kube::pods, {.resource_version = "0"},
        [&](const WatchEvent& event) {
          versions.push_back(event.object["metadata"]["resourceVersion"]);
          if (versions.size() == writers * pods_of_each) stop.request_stop();
        },
        stop.get_token());
    EXPECT_EQ(ended.error().kind, ErrorKind::cancelled);
  };
  std::vector<std::string> seen_by_first;
  std::vector<std::string> seen_by_second;
  {
    std::jthread first{[&] { watch_all(seen_by_first); }};
    std::jthread second{[&] { watch_all(seen_by_second); }};
    std::vector<std::jthread> threads;
    for (int writer = 0; writer < writers; ++writer) {
      threads.emplace_back([&api, writer] {
        for (int pod = 0; pod < pods_of_each; ++pod) {
          EXPECT_TRUE(api.create(kube::pods, "default",
                                 labelled_pod("p-" + std::to_string(writer) + "-" + std::to_string(pod))));
        }
      });
    }
  }
  std::vector<std::string> one_to_all;
  for (int version = 1; version <= writers * pods_of_each; ++version) one_to_all.push_back(std::to_string(version));
  // Objects that existed when a watch began come in the order of names, the others in the order of writes.
  for (auto* seen : {&seen_by_first, &seen_by_second}) {
    std::sort(seen->begin(), seen->end(),
              [](const auto& left, const auto& right) { return std::stoi(left) < std::stoi(right); });
    EXPECT_EQ(*seen, one_to_all);
  }
}

}  // namespace
}  // namespace trainyard::local

#include "operator/control/informer.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "api/metadata.hpp"
#include "common/try.hpp"
#include "operator/control/cache_sink.hpp"
#include "tests/fakes/refusing_api.hpp"

namespace trainyard::control {
namespace {

using kube::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Thing {
  api::Metadata metadata;
};

Result<Thing> parse_thing(const json& object) {
  auto metadata = TRY(api::parse_metadata(object));
  return Thing{std::move(metadata)};
}

json object(const std::string& name, const std::string& version) {
  return {{"metadata", {{"name", name}, {"namespace", "ns"}, {"uid", "uid-" + name}, {"resourceVersion", version}}}};
}

kube::WatchEvent event(kube::WatchEventType type, const std::string& name, const std::string& version) {
  return {type, object(name, version)};
}

/// Answers lists and watches from a script and records the requests. A watch after the script's end is silent until the
/// stop.
class ScriptedApi final : public fakes::RefusingApi {
 public:
  struct Watch {
    std::vector<kube::WatchEvent> events;
    Result<void> ended;
  };

  std::deque<Result<kube::ListPage>> lists;
  std::deque<Watch> watches;
  kube::ListOptions list_options;    ///< Of the last list.
  kube::WatchOptions watch_options;  ///< Of the last watch.

  Result<kube::ListPage> list(const kube::ResourceType&, const kube::ListOptions& options) override {
    const std::scoped_lock lock{mutex_};
    asked_.push_back("list " + options.continue_token);
    list_options = options;
    if (lists.empty()) return fail(ErrorKind::internal, "the script has no such list");
    auto page = lists.front();
    lists.pop_front();
    return page;
  }

  Result<void> watch(const kube::ResourceType&, const kube::WatchOptions& options,
                     const std::function<void(const kube::WatchEvent&)>& on_event, std::stop_token stop) override {
    Watch scripted;
    {
      std::unique_lock lock{mutex_};
      asked_.push_back("watch " + options.resource_version);
      watch_options = options;
      if (watches.empty()) {
        is_silent_ = true;
        changed_.notify_all();
        changed_.wait(lock, stop, [] { return false; });
        return fail(ErrorKind::cancelled, "stopped");
      }
      scripted = watches.front();
      watches.pop_front();
    }
    for (const auto& event : scripted.events) on_event(event);
    return scripted.ended;
  }

  /// The requests until the end of the script.
  std::vector<std::string> asked() {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, seconds{60}, [&] { return is_silent_; });
    return asked_;
  }
  /// Number of requests so far.
  std::size_t asked_count() {
    const std::scoped_lock lock{mutex_};
    return asked_.size();
  }

 private:
  std::mutex mutex_;  // guards all but the construction of the script
  std::condition_variable_any changed_;
  std::vector<std::string> asked_;
  bool is_silent_ = false;
};

struct Outcome {
  std::vector<std::string> asked;
  std::vector<std::string> cached;   ///< "name@version", sorted
  std::vector<std::string> changes;  ///< in order
  int first_lists = 0;
  std::size_t asked_before_first_list = 0;
  std::int64_t watch_restarts = 0;
};

const InformerOptions quick_tries{.backoff = {.initial = milliseconds{1}, .max = milliseconds{2}}};

Outcome run(ScriptedApi& api, const InformerOptions& options = quick_tries) {
  ObjectCache<Thing> cache;
  Outcome result;
  CacheSink<Thing> sink{cache, "", parse_thing,
                        [&](const Thing& thing) { result.changes.push_back(thing.metadata.name); }};
  Informer informer{api, kube::pods, options, sink, [&] {
                      ++result.first_lists;
                      result.asked_before_first_list = api.asked_count();
                    }};
  {
    std::jthread thread{[&](const std::stop_token& stop) { informer.run(stop); }};
    result.asked = api.asked();
  }
  cache.for_each([&](const Thing& thing) {
    result.cached.push_back(thing.metadata.name + "@" + thing.metadata.resource_version);
  });
  result.watch_restarts = informer.watch_restarts();
  return result;
}

using Texts = std::vector<std::string>;
using kube::WatchEventType;

TEST(Informer, ListsPagesAndThenWatches) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{object("a", "1")}, "5", "next"}, kube::ListPage{{object("b", "2")}, "5", ""}};
  const Outcome done = run(api);
  EXPECT_EQ(done.asked, (Texts{"list ", "list next", "watch 5"}));
  EXPECT_EQ(done.cached, (Texts{"a@1", "b@2"}));
  EXPECT_EQ(done.first_lists, 1);
  EXPECT_EQ(done.watch_restarts, 0);
}

TEST(Informer, ListsAndWatchesWhatItsOptionsSay) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{object("a", "1")}, "5", ""}};
  InformerOptions options = quick_tries;
  options.name_space = "ns";
  options.label_selector = "trainyard.dev/job";
  options.field_selector = "reason=FailedMount";
  options.page_objects = 7;
  options.watch_timeout = seconds{11};
  run(api, options);
  EXPECT_EQ(api.list_options.name_space, "ns");
  EXPECT_EQ(api.list_options.label_selector, "trainyard.dev/job");
  EXPECT_EQ(api.list_options.field_selector, "reason=FailedMount");
  EXPECT_EQ(api.list_options.resource_version, "") << "the newest";
  EXPECT_EQ(api.list_options.limit, 7);
  EXPECT_EQ(api.watch_options.name_space, "ns");
  EXPECT_EQ(api.watch_options.label_selector, "trainyard.dev/job");
  EXPECT_EQ(api.watch_options.field_selector, "reason=FailedMount");
  EXPECT_EQ(api.watch_options.timeout, seconds{11});
}

TEST(Informer, FollowsEventsAndWatchesFromTheLastVersionWhenTheStreamIsDropped) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{object("a", "1"), object("b", "2")}, "5", ""}};
  api.watches = {{{event(WatchEventType::added, "c", "6"), event(WatchEventType::modified, "a", "7"),
                   event(WatchEventType::deleted, "b", "8")},
                  fail(ErrorKind::unavailable, "dropped")},
                 {{event(WatchEventType::bookmark, "", "20")}, {}}};
  const Outcome done = run(api);
  EXPECT_EQ(done.asked, (Texts{"list ", "watch 5", "watch 8", "watch 20"}));
  EXPECT_EQ(done.cached, (Texts{"a@7", "c@6"}));
  EXPECT_EQ(done.changes, (Texts{"a", "b", "c", "a", "b"}));
  EXPECT_EQ(done.watch_restarts, 2);
  EXPECT_EQ(done.first_lists, 1);
}

TEST(Informer, ListsAfreshWhenTheVersionIsGoneAndReportsWhatWasDeletedMeanwhile) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{object("a", "1"), object("b", "2")}, "5", ""},
               kube::ListPage{{object("a", "9")}, "10", ""}};
  api.watches = {{{}, fail(ErrorKind::gone, "too old")}};
  const Outcome done = run(api);
  EXPECT_EQ(done.asked, (Texts{"list ", "watch 5", "list ", "watch 10"}));
  EXPECT_EQ(done.cached, (Texts{"a@9"}));
  EXPECT_EQ(done.changes, (Texts{"a", "b", "a", "b"}));
  EXPECT_EQ(done.first_lists, 1);
}

TEST(Informer, ForgetsWhatItKnowsWhereTheServerWasSetBackToABackup) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{object("a", "8"), object("b", "2"), object("c", "9")}, "10", ""},
               kube::ListPage{{object("a", "3")}, "5", "next"}, kube::ListPage{{object("b", "2")}, "5", ""},
               kube::ListPage{{object("a", "6"), object("b", "2")}, "7", ""}};
  api.watches = {{{event(WatchEventType::modified, "b", "12")}, fail(ErrorKind::gone, "too old")},
                 {{}, fail(ErrorKind::gone, "too old")}};
  const Outcome done = run(api);
  EXPECT_EQ(done.asked, (Texts{"list ", "watch 10", "list ", "list next", "watch 5", "list ", "watch 7"}));
  EXPECT_EQ(done.cached, (Texts{"a@6", "b@2"}));
  EXPECT_EQ(done.changes, (Texts{"a", "b", "c", "b", "a", "b", "c", "a", "b", "a", "b"}))
      << "all are reported when they are forgotten, and once in each list";
}

TEST(Informer, MeasuresABackupByTheNewestVersionWhateverTheOrderOfEvents) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{object("a", "8")}, "10", ""}, kube::ListPage{{object("a", "3")}, "11", ""}};
  api.watches = {{{event(WatchEventType::modified, "b", "12"), event(WatchEventType::modified, "c", "9")},
                  fail(ErrorKind::gone, "too old")}};
  EXPECT_EQ(run(api).cached, (Texts{"a@3"})) << "version 11 is older than 12: what was known is forgotten";
}

TEST(Informer, MeasuresABackupByTheListsWhereNothingHasHappenedSince) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{object("a", "8")}, "10", ""}, kube::ListPage{{object("a", "3")}, "9", ""}};
  api.watches = {{{}, fail(ErrorKind::gone, "too old")}};
  EXPECT_EQ(run(api).cached, (Texts{"a@3"}));
}

TEST(Informer, StartsTheListOverWhenItsTokenIsGone) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{object("a", "1")}, "5", "next"}, fail(ErrorKind::gone, "expired"),
               kube::ListPage{{object("b", "7")}, "8", ""}};
  const Outcome done = run(api);
  EXPECT_EQ(done.asked, (Texts{"list ", "list next", "list ", "watch 8"}));
  EXPECT_EQ(done.cached, (Texts{"b@7"})) << "what the first try had put is not there any more";
}

TEST(Informer, AsksForTheSamePageAgainThroughAnOutage) {
  ScriptedApi api;
  api.lists = {fail(ErrorKind::unavailable, "down"), kube::ListPage{{object("a", "1")}, "5", "next"},
               fail(ErrorKind::throttled, "slow", milliseconds{1}), kube::ListPage{{object("b", "2")}, "5", ""}};
  const Outcome done = run(api);
  EXPECT_EQ(done.asked, (Texts{"list ", "list ", "list next", "list next", "watch 5"}));
  EXPECT_EQ(done.cached, (Texts{"a@1", "b@2"}));
}

TEST(Informer, IsReadyWithoutTheRightToListOnlyIfItsKindIsOptional) {
  for (const bool is_optional : {true, false}) {
    ScriptedApi api;
    api.lists = {fail(ErrorKind::forbidden, "no right"), kube::ListPage{{object("a", "1")}, "5", ""}};
    InformerOptions options = quick_tries;
    options.is_optional = is_optional;
    const Outcome done = run(api, options);
    EXPECT_EQ(done.asked, (Texts{"list ", "list ", "watch 5"})) << "the right may be given later";
    EXPECT_EQ(done.first_lists, 1);
    EXPECT_EQ(done.asked_before_first_list, is_optional ? 1U : 2U);
  }
}

TEST(Informer, WaitsForAListThatFailsOtherwiseEvenIfItsKindIsOptional) {
  ScriptedApi api;
  api.lists = {fail(ErrorKind::unavailable, "down"), kube::ListPage{{object("a", "1")}, "5", ""}};
  InformerOptions options = quick_tries;
  options.is_optional = true;
  const Outcome done = run(api, options);
  EXPECT_EQ(done.asked, (Texts{"list ", "list ", "watch 5"}));
  EXPECT_EQ(done.first_lists, 1);
  EXPECT_EQ(done.asked_before_first_list, 2U);
}

TEST(Informer, LeavesOutAnObjectThatCannotBeRead) {
  ScriptedApi api;
  api.lists = {kube::ListPage{{json::object(), object("a", "1")}, "5", ""}};
  api.watches = {{{{WatchEventType::added, {{"metadata", {{"resourceVersion", "6"}}}}},
                   {WatchEventType::modified, {{"metadata", {{"resourceVersion", 7}}}}},
                   {WatchEventType::deleted, {{"metadata", "b"}}}},
                  fail(ErrorKind::unavailable, "dropped")}};
  const Outcome done = run(api);
  EXPECT_EQ(done.asked, (Texts{"list ", "watch 5", "watch 6"}));
  EXPECT_EQ(done.cached, (Texts{"a@1"}));
}

TEST(CacheSink, KeepsTheLastReadableVersionOfAnObjectAndReportsTheError) {
  ObjectCache<Thing> cache;
  Texts changes;
  Texts unreadable;
  CacheSink<Thing> sink{cache, "",
                        [](const json& given) -> Result<Thing> {
                          if (given.contains("bad")) return fail(ErrorKind::invalid, "bad: must not be given");
                          return parse_thing(given);
                        },
                        [&](const Thing& thing) { changes.push_back(thing.metadata.name); },
                        [&](const api::Metadata& metadata, const Error& error) {
                          unreadable.push_back(metadata.name + ": " + error.message);
                        }};
  const auto cached_version = [&] {
    const auto found = cache.find({"ns", "a"});
    return found ? found->metadata.resource_version : "none";
  };
  sink.put(object("a", "1"));
  json bad = object("a", "2");
  bad["bad"] = true;
  sink.put(bad);
  EXPECT_EQ(cached_version(), "1");
  sink.begin_list();
  sink.put(bad);
  sink.end_list("9");
  EXPECT_EQ(cached_version(), "1") << "it is still there";
  EXPECT_EQ(changes, Texts{"a"});
  EXPECT_EQ(unreadable, Texts(2, "a: bad: must not be given"));
  sink.erase(bad);
  EXPECT_EQ(cached_version(), "none");
  EXPECT_EQ(changes, (Texts{"a", "a"}));
}

TEST(CacheSink, LeavesObjectsOfOtherNamespacesToTheirOwnLists) {
  ObjectCache<Thing> cache;
  Texts changes;
  CacheSink<Thing> sink{cache, "ns", parse_thing, [&](const Thing& thing) { changes.push_back(thing.metadata.name); }};
  json elsewhere = object("b", "2");
  elsewhere["metadata"]["namespace"] = "other";
  cache.put(*parse_thing(elsewhere));
  sink.put(object("a", "1"));
  sink.begin_list();
  sink.end_list("9");
  EXPECT_EQ(cache.keys(), (std::vector<ObjectKey>{{"other", "b"}}));
  sink.put(object("a", "12"));
  sink.begin_list();
  sink.forget();
  EXPECT_EQ(cache.keys(), (std::vector<ObjectKey>{{"other", "b"}}));
  EXPECT_EQ(changes, Texts(4, "a"));
}

TEST(CacheSink, SkipsADeletionOfWhichNobodyKnowsWhatItDeletes) {
  ObjectCache<Thing> cache;
  Texts changes;
  CacheSink<Thing> sink{cache, "", parse_thing, [&](const Thing& thing) { changes.push_back(thing.metadata.name); }};
  sink.put(object("a", "1"));
  sink.erase(json::object());
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_EQ(changes, Texts{"a"});
  sink.erase(object("unknown", "3"));
  EXPECT_EQ(changes, (Texts{"a", "unknown"})) << "an object that was gone before it was seen";
}

TEST(CacheSink, ErasesNoSuccessorByTheEventOfItsPredecessorsDeletion) {
  ObjectCache<Thing> cache;
  CacheSink<Thing> sink{cache, "", parse_thing, [](const Thing&) {}};
  json successor = object("a", "7");
  successor["metadata"]["uid"] = "of-the-successor";
  sink.put(object("a", "1"));
  sink.put(successor);
  sink.erase(object("a", "6"));
  const auto found = cache.find({"ns", "a"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->metadata.uid, "of-the-successor");
}

}  // namespace
}  // namespace trainyard::control

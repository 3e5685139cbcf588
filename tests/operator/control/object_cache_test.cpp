#include "operator/control/object_cache.hpp"

#include <gtest/gtest.h>

#include "api/metadata.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::control {
namespace {

struct Item {
  api::Metadata metadata;
  bool operator==(const Item&) const = default;
};

Item item(std::string name, std::string uid, std::string version, std::string owner = {}) {
  Item made;
  made.metadata.name = std::move(name);
  made.metadata.name_space = "ns";
  made.metadata.uid = std::move(uid);
  made.metadata.resource_version = std::move(version);
  if (!owner.empty()) made.metadata.controller = api::OwnerReference{.uid = std::move(owner), .is_controller = true};
  return made;
}

TEST(ObjectCache, KeepsTheNewerOfTwoVersionsOfOneObject) {
  ObjectCache<Item> cache;
  cache.put(item("a", "u", "10"));
  cache.put(item("a", "u", "9"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.resource_version, "10") << "versions are numbers, not texts";
  cache.put(item("a", "u", "11"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.resource_version, "11");
}

TEST(IsOlderVersion, ComparesNumbersOfAnyLength) {
  struct Row {
    const char* left;
    const char* right;
    bool is_older;
  };
  for (const Row& row : {Row{"9", "10", true}, Row{"10", "9", false}, Row{"10", "11", true}, Row{"11", "10", false},
                         Row{"10", "10", false}, Row{"", "1", true}, Row{"1", "", false}, Row{"", "", false},
                         Row{"18446744073709551615", "100000000000000000000", true}}) {
    EXPECT_EQ(is_older_version(row.left, row.right), row.is_older) << row.left << " " << row.right;
  }
}

TEST(ObjectCache, TakesAnotherObjectOfTheSameNameWhateverItsVersion) {
  ObjectCache<Item> cache;
  cache.put(item("a", "u", "10"));
  cache.put(item("a", "w", "9"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.uid, "w");
}

TEST(ObjectCache, FindsObjectsByTheirController) {
  ObjectCache<Item> cache;
  cache.put(item("b", "u1", "1", "job"));
  cache.put(item("a", "u2", "1", "job"));
  cache.put(item("c", "u3", "1", "other"));
  EXPECT_EQ(cache.owned_by("job"), (std::vector<Item>{item("a", "u2", "1", "job"), item("b", "u1", "1", "job")}));
  cache.put(item("a", "u2", "2", "other"));
  EXPECT_EQ(cache.owned_by("job").size(), 1U);
  cache.erase({"ns", "b"}, "u1");
  EXPECT_TRUE(cache.owned_by("job").empty());
}

TEST(ObjectCache, FindsObjectsByTheirNode) {
  ObjectCache<resource::Pod> cache;
  const auto pod = [](std::string name, std::string version, std::string node) {
    resource::Pod made;
    made.metadata = {.name = std::move(name), .name_space = "ns", .uid = "u", .resource_version = std::move(version)};
    made.node_name = std::move(node);
    return made;
  };
  const auto names_on = [&](std::string_view node) {
    std::vector<std::string> names;
    for (const auto& found : cache.on_node(node)) names.push_back(found.metadata.name);
    return names;
  };
  using Names = std::vector<std::string>;
  cache.put(pod("b", "1", "n1"));
  cache.put(pod("a", "1", "n1"));
  cache.put(pod("c", "1", "n2"));
  cache.put(pod("d", "1", ""));
  EXPECT_EQ(names_on("n1"), (Names{"a", "b"}));
  EXPECT_EQ(names_on(""), Names{}) << "a pod without a node is on none";
  cache.put(pod("d", "2", "n1"));
  cache.put(pod("a", "0", "n2"));
  EXPECT_EQ(names_on("n1"), (Names{"a", "b", "d"})) << "an older version moves nothing";
  cache.erase({"ns", "b"});
  cache.erase_unlisted("ns", {{"ns", "d"}}, "9");
  EXPECT_EQ(names_on("n1"), Names{"d"});
  EXPECT_EQ(names_on("n2"), Names{});
}

TEST(ObjectCache, ShowsEveryObjectAndEveryKeyInOrder) {
  ObjectCache<Item> cache;
  cache.put(item("b", "u1", "1"));
  cache.put(item("a", "u2", "1"));
  std::vector<std::string> uids;
  cache.for_each([&](const Item& each) { uids.push_back(each.metadata.uid); });
  EXPECT_EQ(uids, (std::vector<std::string>{"u2", "u1"}));
  EXPECT_EQ(cache.keys(), (std::vector<ObjectKey>{{"ns", "a"}, {"ns", "b"}}));
}

TEST(ObjectCache, ErasesOnlyTheObjectThatIsMeant) {
  ObjectCache<Item> cache;
  cache.put(item("a", "new", "10"));
  cache.erase({"ns", "a"}, "old");
  EXPECT_TRUE(cache.find({"ns", "a"}));
  cache.erase({"ns", "a"});
  EXPECT_FALSE(cache.find({"ns", "a"}));
}

TEST(ObjectCache, DoesNotBringBackAnObjectThatWasReportedGone) {
  ObjectCache<Item> cache;
  cache.put(item("a", "u", "1"));
  cache.erase({"ns", "a"}, "u");
  EXPECT_FALSE(cache.put(item("a", "u", "2"))) << "the late reply of a write";
  EXPECT_FALSE(cache.find({"ns", "a"}));
  EXPECT_TRUE(cache.put(item("a", "w", "3")));
  EXPECT_TRUE(cache.find({"ns", "a"}));
  EXPECT_EQ(cache.erase_unlisted("", {}, "9").size(), 1U);
  EXPECT_FALSE(cache.put(item("a", "w", "4"))) << "a list that lacks it reports it gone too";
  cache.erase({"ns", "b"}, "x");
  EXPECT_FALSE(cache.put(item("b", "x", "5"))) << "its deletion came before the reply of its creation";
}

TEST(ObjectCache, RemembersADeletionForAsLongAsFewOthersFollow) {
  ObjectCache<Item> cache;
  for (int count = 0; count <= 4096; ++count) cache.erase({"ns", "a"}, "uid-" + std::to_string(count));
  EXPECT_TRUE(cache.put(item("a", "uid-0", "1"))) << "its memory is bounded";
  EXPECT_FALSE(cache.put(item("a", "uid-1", "1")));
  EXPECT_FALSE(cache.put(item("a", "uid-4096", "1")));
}

TEST(ObjectCache, TakesAnObjectAgainThatWasErasedWithoutAUid) {
  ObjectCache<Item> cache;
  cache.put(item("a", "u", "1"));
  cache.erase({"ns", "a"});
  EXPECT_TRUE(cache.put(item("a", "u", "1"))) << "nobody reported a deletion";
}

TEST(ObjectCache, BelievesAListMoreThanAReply) {
  ObjectCache<Item> cache;
  cache.put(item("a", "u", "1"));
  cache.erase({"ns", "a"}, "u");  // as after a reply of 404
  cache.put_listed(item("a", "u", "2"));
  EXPECT_TRUE(cache.find({"ns", "a"}));
  cache.put(item("a", "u", "3"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.resource_version, "3");
}

TEST(ObjectCache, ErasesWhatAListDidNotHaveAndNothingNewer) {
  ObjectCache<Item> cache;
  cache.put(item("listed", "u1", "1"));
  cache.put(item("gone", "u2", "2"));
  cache.put(item("gone last", "u5", "10"));
  cache.put(item("younger", "u3", "11"));  // created by us after the list was taken
  Item elsewhere = item("elsewhere", "u4", "1");
  elsewhere.metadata.name_space = "other";
  cache.put(elsewhere);
  EXPECT_EQ(cache.erase_unlisted("ns", {{"ns", "listed"}}, "10"),
            (std::vector<Item>{item("gone", "u2", "2"), item("gone last", "u5", "10")}));
  EXPECT_EQ(cache.size(), 3U);
  EXPECT_EQ(cache.erase_unlisted("", {}, "10").size(), 2U);
}

}  // namespace
}  // namespace trainyard::control

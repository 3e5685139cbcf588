#include "operator/control/object_cache.hpp"

#include <gtest/gtest.h>

#include "operator/resource/metadata.hpp"

namespace trainyard::control {
namespace {

struct Item {
  resource::Metadata metadata;
  bool operator==(const Item&) const = default;
};

Item item(std::string name, std::string uid, std::string version, std::string owner = {}) {
  Item made;
  made.metadata.name = std::move(name);
  made.metadata.name_space = "ns";
  made.metadata.uid = std::move(uid);
  made.metadata.resource_version = std::move(version);
  if (!owner.empty())
    made.metadata.controller = resource::OwnerReference{.uid = std::move(owner), .is_controller = true};
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

TEST(ObjectCache, ErasesOnlyTheObjectThatIsMeant) {
  ObjectCache<Item> cache;
  cache.put(item("a", "new", "10"));
  cache.erase({"ns", "a"}, "old");
  EXPECT_TRUE(cache.find({"ns", "a"}));
  cache.erase({"ns", "a"});
  EXPECT_FALSE(cache.find({"ns", "a"}));
}

TEST(ObjectCache, DoesNotBringBackWhatItWasToldIsGone) {
  ObjectCache<Item> cache;
  cache.put(item("a", "u", "1"));
  cache.erase({"ns", "a"}, "u");
  cache.put(item("a", "u", "2"));  // the late reply of a write
  EXPECT_FALSE(cache.find({"ns", "a"}));
  cache.put(item("a", "w", "3"));
  EXPECT_TRUE(cache.find({"ns", "a"}));
}

TEST(ObjectCache, BelievesAListMoreThanAReply) {
  ObjectCache<Item> cache;
  cache.put(item("a", "u", "1"));
  cache.erase({"ns", "a"}, "u");  // a reply said that it is not there
  cache.put_listed(item("a", "u", "2"));
  EXPECT_TRUE(cache.find({"ns", "a"}));
  cache.put(item("a", "u", "3"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.resource_version, "3");
}

TEST(ObjectCache, ErasesWhatAListDidNotHaveAndNothingNewer) {
  ObjectCache<Item> cache;
  cache.put(item("listed", "u1", "1"));
  cache.put(item("gone", "u2", "2"));
  cache.put(item("younger", "u3", "11"));  // created by us after the list was taken
  Item elsewhere = item("elsewhere", "u4", "1");
  elsewhere.metadata.name_space = "other";
  cache.put(elsewhere);
  EXPECT_EQ(cache.erase_unlisted("ns", {{"ns", "listed"}}, "10"), std::vector<Item>{item("gone", "u2", "2")});
  EXPECT_EQ(cache.size(), 3U);
  EXPECT_EQ(cache.erase_unlisted("", {}, "10").size(), 2U);
}

}  // namespace
}  // namespace trainyard::control

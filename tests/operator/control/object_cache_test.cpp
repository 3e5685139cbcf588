#include "operator/control/object_cache.hpp"

#include <gtest/gtest.h>

#include "operator/resource/metadata.hpp"

namespace trainyard::control {
namespace {

struct Thing {
  resource::Metadata metadata;
  bool operator==(const Thing&) const = default;
};

Thing thing(std::string name, std::string uid, std::string version, std::string owner = {}) {
  Thing made;
  made.metadata.name = std::move(name);
  made.metadata.name_space = "ns";
  made.metadata.uid = std::move(uid);
  made.metadata.resource_version = std::move(version);
  if (!owner.empty())
    made.metadata.controller = resource::OwnerReference{.uid = std::move(owner), .is_controller = true};
  return made;
}

TEST(ObjectCache, KeepsTheNewerOfTwoVersionsOfOneObject) {
  ObjectCache<Thing> cache;
  cache.put(thing("a", "u", "10"));
  cache.put(thing("a", "u", "9"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.resource_version, "10") << "versions are numbers, not texts";
  cache.put(thing("a", "u", "11"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.resource_version, "11");
}

TEST(ObjectCache, TakesAnotherObjectOfTheSameNameWhateverItsVersion) {
  ObjectCache<Thing> cache;
  cache.put(thing("a", "u", "10"));
  cache.put(thing("a", "w", "9"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.uid, "w");
}

TEST(ObjectCache, FindsObjectsByTheirController) {
  ObjectCache<Thing> cache;
  cache.put(thing("b", "u1", "1", "job"));
  cache.put(thing("a", "u2", "1", "job"));
  cache.put(thing("c", "u3", "1", "other"));
  EXPECT_EQ(cache.owned_by("job"), (std::vector<Thing>{thing("a", "u2", "1", "job"), thing("b", "u1", "1", "job")}));
  cache.put(thing("a", "u2", "2", "other"));
  EXPECT_EQ(cache.owned_by("job").size(), 1U);
  cache.erase({"ns", "b"}, "u1");
  EXPECT_TRUE(cache.owned_by("job").empty());
}

TEST(ObjectCache, ErasesOnlyTheObjectThatIsMeant) {
  ObjectCache<Thing> cache;
  cache.put(thing("a", "new", "10"));
  cache.erase({"ns", "a"}, "old");
  EXPECT_TRUE(cache.find({"ns", "a"}));
  cache.erase({"ns", "a"});
  EXPECT_FALSE(cache.find({"ns", "a"}));
}

TEST(ObjectCache, DoesNotBringBackWhatItWasToldIsGone) {
  ObjectCache<Thing> cache;
  cache.put(thing("a", "u", "1"));
  cache.erase({"ns", "a"}, "u");
  cache.put(thing("a", "u", "2"));  // the late reply of a write
  EXPECT_FALSE(cache.find({"ns", "a"}));
  cache.put(thing("a", "w", "3"));
  EXPECT_TRUE(cache.find({"ns", "a"}));
}

TEST(ObjectCache, BelievesAListMoreThanAReply) {
  ObjectCache<Thing> cache;
  cache.put(thing("a", "u", "1"));
  cache.erase({"ns", "a"}, "u");  // a reply said that it is not there
  cache.put_listed(thing("a", "u", "2"));
  EXPECT_TRUE(cache.find({"ns", "a"}));
  cache.put(thing("a", "u", "3"));
  EXPECT_EQ(cache.find({"ns", "a"})->metadata.resource_version, "3");
}

TEST(ObjectCache, ErasesWhatAListDidNotHaveAndNothingNewer) {
  ObjectCache<Thing> cache;
  cache.put(thing("listed", "u1", "1"));
  cache.put(thing("gone", "u2", "2"));
  cache.put(thing("younger", "u3", "11"));  // created by us after the list was taken
  Thing elsewhere = thing("elsewhere", "u4", "1");
  elsewhere.metadata.name_space = "other";
  cache.put(elsewhere);
  EXPECT_EQ(cache.erase_unlisted("ns", {{"ns", "listed"}}, "10"), std::vector<Thing>{thing("gone", "u2", "2")});
  EXPECT_EQ(cache.size(), 3U);
  EXPECT_EQ(cache.erase_unlisted("", {}, "10").size(), 2U);
}

}  // namespace
}  // namespace trainyard::control

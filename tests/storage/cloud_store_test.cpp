// gs:// and az:// over servers that stand in for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/storage/cloud_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;

class ACloudStore : public CloudFixture {};
INSTANTIATE_TEST_SUITE_P(Clouds, ACloudStore, testing::Values("gs", "az"), cloud_name);

TEST_P(ACloudStore, GivesBackWhatWasPut) {
  contract::gives_back_what_was_put(*open());
}
TEST_P(ACloudStore, SaysWhatIsNotThere) {
  contract::says_what_is_not_there(*open());
}
TEST_P(ACloudStore, ReportsAnObjectThatEndsTooEarly) {
  contract::reports_an_object_that_ends_too_early(*open());
}
TEST_P(ACloudStore, ListsByPrefixInOrder) {
  contract::lists_by_prefix_in_order(*open());
}
TEST_P(ACloudStore, CreatesAnObjectForOneWriterOnly) {
  contract::creates_an_object_for_one_writer_only(*open());
}
TEST_P(ACloudStore, RefusesKeysThatLeadElsewhere) {
  contract::refuses_keys_that_lead_elsewhere(*open());
}

TEST_P(ACloudStore, ListsInPagesOfAnySize) {
  page_objects = 2;
  contract::lists_by_prefix_in_order(*open());
}

TEST_P(ACloudStore, CreatesALargeObjectOnlyWhereThereIsNone) {
  const auto store = open();
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{2} << 20) + 1);
  const std::span<const std::byte> piece{content};
  const auto created = store->put("a", {&piece, 1}, {.if_absent = true});
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ(store->get("a"), content);
  const std::vector<std::byte> other((std::size_t{2} << 20) + 1);
  const std::span<const std::byte> other_piece{other};
  const auto again = store->put("a", {&other_piece, 1}, {.if_absent = true});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::already_exists) << again.error().message;
  EXPECT_EQ(store->get("a"), content);
}

TEST_P(ACloudStore, KeepsToItsPrefix) {
  const auto store = open();
  const auto other = open(server().port(), "run-2");
  ASSERT_TRUE(put_text(*store, "a", "mine"));
  ASSERT_TRUE(put_text(*other, "a", "other"));
  EXPECT_EQ(store->list(""), (std::vector<ObjectInfo>{{"a", 4}}));
  EXPECT_EQ(store->uri_of("a"), fmt::format("{}://{}/run/a", GetParam(), bucket));
  const auto root =
      try_open(server().environment_at(server().port()), parse_uri(fmt::format("{}://{}", GetParam(), bucket)).value())
          .value();
  EXPECT_EQ(root->list(""), (std::vector<ObjectInfo>{{"run-2/a", 5}, {"run/a", 4}}));
}

TEST_P(ACloudStore, TakesKeysWithCharactersThatUrlsEscape) {
  const auto store = open();
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{1} << 20) + 1);
  const std::span<const std::byte> piece{content};
  const std::string key = "a b/c+d%20e/f=g&h#i";
  ASSERT_TRUE(put_text(*store, key, "x"));
  EXPECT_EQ(get_text(*store, key), "x");
  EXPECT_EQ(store->list(""), (std::vector<ObjectInfo>{{key, 1}}));
  ASSERT_TRUE(store->put(key, {&piece, 1}));
  EXPECT_EQ(store->list("a b/"), (std::vector<ObjectInfo>{{key, content.size()}}));
  ASSERT_TRUE(store->remove(key));
  EXPECT_EQ(store->list(""), std::vector<ObjectInfo>{});
}

TEST_P(ACloudStore, ProbesABucketWithNothingInIt) {
  const auto probed = open()->probe();
  EXPECT_TRUE(probed) << probed.error().message;
}

TEST_P(ACloudStore, SaysThatTheBucketIsNotThere) {
  const auto store = try_open(server().environment_at(server().port()),
                              parse_uri(fmt::format("{}://no-such-bucket/run", GetParam())).value())
                         .value();
  const std::vector<std::byte> content((std::size_t{1} << 20) + 1);
  const std::span<const std::byte> large{content};
  const auto nothing = [](const auto&) {};
  const std::vector<Result<void>> outcomes = {
      store->probe(),     put_text(*store, "a", "x"),  store->put("a", {&large, 1}), store->get("a").map(nothing),
      store->remove("a"), store->list("").map(nothing)};
  for (const Result<void>& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind, ErrorKind::not_found) << outcome.error().message;
    EXPECT_THAT(outcome.error().message, testing::AllOf(HasSubstr("no-such-bucket"), HasSubstr("Create the ")));
  }
}

TEST_P(ACloudStore, PutsAndGetsALargeObjectInParts) {
  const auto store = open();
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{9} << 20) + 7);
  const std::span<const std::byte> all{content};
  const std::vector<std::span<const std::byte>> pieces = {all.first(5), all.subspan(5, 6U << 20),
                                                          all.subspan(5 + (6U << 20))};
  const auto put = store->put("large", pieces);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(store->list(""), (std::vector<ObjectInfo>{{"large", content.size()}}));
  std::vector<std::byte> back(content.size() - 3);
  const auto got = store->get_range("large", 3, back);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(std::equal(back.begin(), back.end(), content.begin() + 3));
  EXPECT_EQ(store->get("large"), content);
}

}  // namespace
}  // namespace trainyard::storage

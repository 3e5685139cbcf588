// gs:// and az:// over servers that stand in for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/storage/arrow/cloud_fixture.hpp"
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
TEST_P(ACloudStore, TellsAnObjectThatEndsTooEarly) {
  contract::tells_an_object_that_ends_too_early(*open());
}
TEST_P(ACloudStore, ListsByPrefixInOrder) {
  contract::lists_by_prefix_in_order(*open());
}
TEST_P(ACloudStore, RefusesKeysThatLeadElsewhere) {
  contract::refuses_keys_that_lead_elsewhere(*open());
}

TEST_P(ACloudStore, HasOneWriterAndSaysSo) {
  const auto store = open();
  EXPECT_FALSE(store->has_conditional_create());
  const auto put = put_text(*store, "a", "x", {.if_absent = true});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::invalid);
  EXPECT_THAT(put.error().message, HasSubstr("one writer"));
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
  const std::string key = "a b/c+d%20e/f=g&h#i";
  ASSERT_TRUE(put_text(*store, key, "x"));
  EXPECT_EQ(get_text(*store, key), "x");
  EXPECT_EQ(store->list(""), (std::vector<ObjectInfo>{{key, 1}}));
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
  const auto nothing = [](const auto&) {};
  std::vector<Result<void>> outcomes = {store->probe(), put_text(*store, "a", "x"), store->get("a").map(nothing),
                                        store->list("").map(nothing)};
  // Google's server does not say whether it is the bucket that a missing object lacks.
  if (GetParam() == "az") outcomes.push_back(store->remove("a"));
  for (const Result<void>& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind, ErrorKind::not_found) << outcome.error().message;
    EXPECT_THAT(outcome.error().message, HasSubstr("no-such-bucket"));
  }
}

std::uint64_t peak_memory_bytes() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) << 10;
  }
  return 0;
}

TEST_P(ACloudStore, PutsAndGetsALargeObjectWithoutHoldingItTwice) {
  const auto store = open();
  const std::vector<std::byte> content = contract::some_bytes(std::size_t{150} << 20);
  const std::span<const std::byte> all{content};
  const std::vector<std::span<const std::byte>> pieces = {all.first(5), all.subspan(5, 100U << 20),
                                                          all.subspan(5 + (100U << 20))};
  ASSERT_TRUE(put_text(*store, "warm", "up"));
  const std::uint64_t before = peak_memory_bytes();
  const auto put = store->put("large", pieces);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_LT(peak_memory_bytes() - before, std::uint64_t{64} << 20);
  EXPECT_EQ(store->list(""), (std::vector<ObjectInfo>{{"large", content.size()}, {"warm", 2}}));
  std::vector<std::byte> back(content.size());
  ASSERT_TRUE(store->get_range("large", 0, back));
  EXPECT_EQ(back, content);
  EXPECT_LT(peak_memory_bytes() - before, back.size() + (std::uint64_t{64} << 20));
}

}  // namespace
}  // namespace trainyard::storage

#include "storage/store.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::storage {
namespace {

TEST(CheckKey, TakesPlainPaths) {
  for (const char* key : {"a", "a/b", "step-10/g-1/manifest.json", "with space", "dots.in.names", "ünïcode"}) {
    EXPECT_TRUE(check_key(key)) << key;
  }
  EXPECT_TRUE(check_key(std::string(900, 'x')));
}

TEST(CheckKey, RefusesWhatCouldLeaveThePrefixOrMeetATemporaryFile) {
  for (const std::string& key :
       {std::string{}, std::string{"/a"}, std::string{"a/"}, std::string{"a//b"}, std::string{".."},
        std::string{"a/../b"}, std::string{"."}, std::string{"a/.tmp-1"}, std::string{"a\nb"}, std::string{"a\x7f"},
        std::string{".hidden/a"}, std::string("a\0b", 3), std::string(901, 'x')}) {
    const auto good = check_key(key);
    ASSERT_FALSE(good) << key;
    EXPECT_EQ(good.error().kind, ErrorKind::invalid);
  }
}

/// A store that removes one object at a time, with credentials that may not.
class StoreWithoutTheRightToRemove final : public Store {
 public:
  Result<void> probe() override { return {}; }
  Result<void> put(std::string_view, Pieces, const PutOptions&) override { return {}; }
  Result<std::vector<std::byte>> get(std::string_view) override { return {}; }
  Result<void> get_range(std::string_view, std::uint64_t, std::span<std::byte>) override { return {}; }
  Result<std::vector<ObjectInfo>> list(std::string_view) override { return {}; }
  Result<void> remove(std::string_view, const std::stop_token&) override {
    return fail(ErrorKind::forbidden, "no right to remove");
  }
  Result<void> remove_unfinished(const std::function<bool(std::string_view folder)>&) override { return {}; }
  [[nodiscard]] bool has_conditional_create() const override { return true; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override { return std::string{key}; }
};

TEST(RemoveAll, SaysThatItMayNotRemove) {
  StoreWithoutTheRightToRemove store;
  const std::vector<std::string> keys{"a", "b"};
  const auto removed = store.remove_all(keys);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().kind, ErrorKind::forbidden);
}

}  // namespace
}  // namespace trainyard::storage

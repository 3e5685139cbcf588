#include "storage/store.hpp"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace trainyard::storage

#include "storage/content_md5.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <string_view>
#include <vector>

namespace trainyard::storage {
namespace {

TEST(ContentMd5, IsThatOfRfc1321InBase64) {
  const std::string_view text = "abc";
  const auto bytes = std::as_bytes(std::span{text});
  const std::vector<std::span<const std::byte>> pieces = {bytes.first(1), {}, bytes.subspan(1)};
  EXPECT_EQ(content_md5(pieces), "kAFQmDzST7DWlj99KOF/cg==");  // 900150983cd24fb0d6963f7d28e17f72.
  EXPECT_EQ(content_md5({}), "1B2M2Y8AsgTpgAmY7PhCfg==");
}

TEST(ContentMd5, IsLeftOutWhereOpensslKeepsToFips) {
  ASSERT_EQ(EVP_set_default_properties(nullptr, "fips=yes"), 1);
  const auto md5 = content_md5({});
  const bool is_other = is_other_md5("1B2M2Y8AsgTpgAmY7PhCfg==", {}) || is_other_md5("other", {});
  ASSERT_EQ(EVP_set_default_properties(nullptr, ""), 1);
  EXPECT_FALSE(md5);
  EXPECT_FALSE(is_other) << "it cannot be checked";
  EXPECT_TRUE(is_other_md5("other", {}));
}

}  // namespace
}  // namespace trainyard::storage

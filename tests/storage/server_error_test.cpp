#include "storage/server_error.hpp"

#include <gtest/gtest.h>

namespace trainyard::storage {
namespace {

TEST(SanitizeServerText, HidesSecretsDigestsAndSignatures) {
  const std::string digest(64, 'a');
  EXPECT_EQ(sanitize_server_text("key hush and hush-2 refused.", {"hush-2", "hush"}), "key *** and *** refused");
  EXPECT_EQ(sanitize_server_text("Signature=" + digest + " is wrong", {}), "Signature=*** is wrong");
  EXPECT_EQ(sanitize_server_text("id " + std::string(63, 'a'), {}), "id " + std::string(63, 'a'))
      << "too short for a digest";
  EXPECT_EQ(sanitize_server_text("at ?sv=1&sig=c2VjcmV0&se=2", {}), "at ?sv=1&sig=***&se=2");
  EXPECT_EQ(sanitize_server_text("sig=one 'sig=two'", {}), "sig=*** 'sig=***'");
  EXPECT_EQ(sanitize_server_text("sig=one;sig=two\"sig=three\nsig=four", {}), "sig=***;sig=***\"sig=*** sig=***");
  EXPECT_EQ(sanitize_server_text("two: " + digest + "/" + std::string(70, 'F') + "g", {}), "two: ***/***g");
  EXPECT_EQ(sanitize_server_text("nothing to hide", {""}), "nothing to hide");
}

TEST(SanitizeServerText, GivesOneLineOfAtMost300BytesWithoutAFullStop) {
  EXPECT_EQ(sanitize_server_text("first\r\nsecond\t.. ", {}), "first  second");
  EXPECT_EQ(sanitize_server_text(std::string(400, 'x'), {}), std::string(297, 'x') + "...");
  EXPECT_EQ(sanitize_server_text(std::string(300, 'x'), {}), std::string(300, 'x'));
  EXPECT_EQ(sanitize_server_text("a\x7f\x1b[31mb", {}), "a  [31mb");
}

TEST(SanitizeServerText, CutsNoCharacterInTwo) {
  const std::string before(296, 'x');
  EXPECT_EQ(sanitize_server_text(before + "\u20ac and more", {}), before + "...");
}

TEST(SanitizeServerText, CutsOnlyOnceTheSecretsAreHidden) {
  const std::string before(290, 'x');
  EXPECT_EQ(sanitize_server_text(before + " a-long-secret", {"a-long-secret"}), before + " ***");
  EXPECT_EQ(sanitize_server_text(before + ' ' + std::string(64, 'a'), {}), before + " ***");
  EXPECT_EQ(sanitize_server_text(before + " sig=c2VjcmV0", {}), before + " sig=***");
}

}  // namespace
}  // namespace trainyard::storage

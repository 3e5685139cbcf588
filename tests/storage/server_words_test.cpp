#include "storage/server_words.hpp"

#include <gtest/gtest.h>

namespace trainyard::storage {
namespace {

TEST(ServerWords, HideSecretsDigestsAndSignatures) {
  const std::string digest(64, 'a');
  EXPECT_EQ(server_words("key hush and hush-2 refused.", {"hush-2", "hush"}), "key *** and *** refused");
  EXPECT_EQ(server_words("Signature=" + digest + " is wrong", {}), "Signature=*** is wrong");
  EXPECT_EQ(server_words("id " + std::string(63, 'a'), {}), "id " + std::string(63, 'a')) << "too short for a digest";
  EXPECT_EQ(server_words("at ?sv=1&sig=c2VjcmV0&se=2", {}), "at ?sv=1&sig=***&se=2");
  EXPECT_EQ(server_words("sig=one 'sig=two'", {}), "sig=*** 'sig=***'");
  EXPECT_EQ(server_words("nothing to hide", {""}), "nothing to hide");
}

TEST(ServerWords, AreOneLineOfAtMost300BytesWithoutAFullStop) {
  EXPECT_EQ(server_words("first\r\nsecond\t.. ", {}), "first  second");
  EXPECT_EQ(server_words(std::string(400, 'x'), {}), std::string(300, 'x'));
}

TEST(ServerWords, AreCutOnlyOnceTheSecretsAreHidden) {
  const std::string before(290, 'x');
  EXPECT_EQ(server_words(before + " a-long-secret", {"a-long-secret"}), before + " ***");
  EXPECT_EQ(server_words(before + ' ' + std::string(64, 'a'), {}), before + " ***");
  EXPECT_EQ(server_words(before + " sig=c2VjcmV0", {}), before + " sig=***");
}

}  // namespace
}  // namespace trainyard::storage

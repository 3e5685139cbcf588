#include "common/text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trainyard {
namespace {

TEST(Base64, IsReadBackByItself) {
  const std::vector<std::pair<std::string, std::string>> text_and_bytes{{"", ""},
                                                                        {"Zg==", "f"},
                                                                        {"Zm8=", "fo"},
                                                                        {"Zm9v", "foo"},
                                                                        {"Zm9vYmFy", "foobar"},
                                                                        {"AAA=", std::string(2, '\0')},
                                                                        {"+/8=", "\xfb\xff"}};
  for (const auto& [text, bytes] : text_and_bytes) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes) << text;
  }
  std::string all;
  for (int i = 0; i < 1000; ++i) all += static_cast<char>(i * 7);
  EXPECT_EQ(decode_base64(encode_base64(all)), all);
}

TEST(DecodeBase64, SkipsLineEndsAndSpaces) {
  EXPECT_EQ(decode_base64("Zm9v\nYmFy\r\n"), "foobar");
  EXPECT_EQ(decode_base64(" Zm 9vZ g = = "), "foof");
}

TEST(DecodeBase64, RefusesWhatIsNone) {
  for (const char* text :
       {"Zg=", "Z", "Zm9v!", "====", "Zg==Zg==", "Z===", "=", "Z=g=", "Zg=v", "Zm9!", "Zm9\tv", "Zm-_",
        "Zm\xff"
        "9"})
    EXPECT_FALSE(decode_base64(text)) << text;
}

}  // namespace
}  // namespace trainyard

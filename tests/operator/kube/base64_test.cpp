#include "operator/kube/base64.hpp"

#include <gtest/gtest.h>

namespace trainyard::kube {
namespace {

TEST(DecodeBase64, GivesTheBytes) {
  const std::vector<std::pair<std::string, std::string>> text_and_bytes{{"", ""},
                                                                        {"Zg==", "f"},
                                                                        {"Zm8=", "fo"},
                                                                        {"Zm9v", "foo"},
                                                                        {"Zm9v\nYmFy\n", "foobar"},
                                                                        {"AAA=", std::string(2, '\0')}};
  for (const auto& [text, bytes] : text_and_bytes) EXPECT_EQ(decode_base64(text), bytes) << text;
}

TEST(DecodeBase64, RefusesWhatIsNone) {
  for (const char* text : {"Zg=", "Z", "Zm9v!", "===="}) EXPECT_FALSE(decode_base64(text)) << text;
}

}  // namespace
}  // namespace trainyard::kube

#include "storage/jwt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/storage/rfc7515_key.hpp"

namespace trainyard::storage {
namespace {

TEST(SignedJwt, IsTheExampleOfRfc7515) {
  const auto jwt = signed_jwt(R"({"alg":"RS256"})",
                              "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}",
                              rfc7515_private_key);
  // RFC 7515, A.2.1.
  EXPECT_EQ(
      jwt,
      "eyJhbGciOiJSUzI1NiJ9."
      "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
      "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CU"
      "Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_"
      "dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0"
      "igcN_IoypGlUPQGe77Rw");
}

TEST(SignedJwt, SaysThatAKeyIsNoneWithoutShowingIt) {
  const std::string key = rfc7515_private_key;
  for (const std::string& text : {std::string{"hush"}, std::string{}, key.substr(0, key.size() / 2)}) {
    const auto jwt = signed_jwt("{}", "{}", text);
    ASSERT_FALSE(jwt);
    EXPECT_EQ(jwt.error(), (Error{ErrorKind::unauthorized, "the private key is not an RSA key in PEM", {}}));
  }
}

}  // namespace
}  // namespace trainyard::storage

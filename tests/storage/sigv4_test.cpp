#include "storage/sigv4.hpp"

#include <gtest/gtest.h>

namespace trainyard::storage {
namespace {

// AWS's Signature Version 4 test suite, as github.com/awslabs/aws-c-auth holds it (tests/aws-signing-test-suite/v4).
const Credentials suite_credentials{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
const SigningScope suite_scope{"us-east-1", "service"};
constexpr std::string_view suite_date = "20150830T123600Z";
const std::string empty_hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

SignedParts suite_request(std::string method, std::string path, std::vector<std::pair<std::string, std::string>> query,
                          std::map<std::string, std::string> headers = {}) {
  headers.emplace("host", "example.amazonaws.com");
  headers.emplace("x-amz-date", suite_date);
  return {std::move(method), std::move(path), std::move(query), std::move(headers), empty_hash};
}

std::string signature_of(const std::string& authorization) {
  return authorization.substr(authorization.rfind('=') + 1);
}

TEST(Authorization, AgreesWithTheTestSuiteOfAws) {
  const std::string unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  struct Row {
    std::string_view name;
    SignedParts request;
    std::string_view signature;
  };
  const Row rows[] = {
      {"get-vanilla", suite_request("GET", "/", {}),
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case", suite_request("GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}}),
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-query-order-encoded",
       suite_request("GET", "/", {{"Param-3", "Value3"}, {"Param", "Value2"}, {"\xe1\x88\xb4", "Value1"}}),
       "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
      {"get-vanilla-query-unreserved", suite_request("GET", "/", {{unreserved, unreserved}}),
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
      {"get-vanilla-utf8-query", suite_request("GET", "/", {{"\xe1\x88\xb4", "bar"}}),
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"get-vanilla-with-session-token",
       suite_request("GET", "/", {},
                     {{"x-amz-security-token", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"}}),
       "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
      {"get-utf8", suite_request("GET", "/%E1%88%B4", {}),
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-header-value-trim",
       suite_request("GET", "/", {}, {{"my-header1", "  value1 "}, {"my-header2", "\"a   b   c\""}}),
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post-vanilla", suite_request("POST", "/", {}),
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"post-vanilla-query", suite_request("POST", "/", {{"Param1", "value1"}}),
       "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(signature_of(authorization(row.request, suite_credentials, suite_scope, suite_date)), row.signature)
        << row.name;
  }
}

// Examples of S3's own manual: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
TEST(Authorization, AgreesWithTheExamplesOfS3) {
  const Credentials credentials{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  const std::string date = "20130524T000000Z";
  struct Row {
    std::string_view name;
    SignedParts request;
    std::string_view signature;
  };
  const auto headers = [&](const std::string& hash, std::map<std::string, std::string> more) {
    more.emplace("host", "examplebucket.s3.amazonaws.com");
    more.emplace("x-amz-date", date);
    more.emplace("x-amz-content-sha256", hash);
    return more;
  };
  const std::string put_hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
  const Row rows[] = {
      {"get an object's range",
       {"GET", "/test.txt", {}, headers(empty_hash, {{"range", "bytes=0-9"}}), empty_hash},
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {"put an object",
       {"PUT",
        "/test%24file.text",
        {},
        headers(put_hash, {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}),
        put_hash},
       "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
      {"get a bucket's lifecycle",
       {"GET", "/", {{"lifecycle", ""}}, headers(empty_hash, {}), empty_hash},
       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {"list a bucket's objects",
       {"GET", "/", {{"max-keys", "2"}, {"prefix", "J"}}, headers(empty_hash, {}), empty_hash},
       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
  };
  EXPECT_EQ(sha256_text("Welcome to Amazon S3."), put_hash);
  for (const Row& row : rows) {
    EXPECT_EQ(signature_of(authorization(row.request, credentials, {"us-east-1", "s3"}, date)), row.signature)
        << row.name;
  }
}

TEST(Authorization, NamesItsScopeAndItsHeaders) {
  EXPECT_EQ(
      authorization(suite_request("GET", "/", {}), suite_credentials, suite_scope, suite_date),
      "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, "
      "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

TEST(PercentEncoded, LeavesUnreservedCharactersOnly) {
  EXPECT_EQ(percent_encoded("aZ09-._~/ +ü", true), "aZ09-._~/%20%2B%C3%BC");
  EXPECT_EQ(percent_encoded("a/b", false), "a%2Fb");
}

TEST(CanonicalQuery, IsSortedAsItIsEncoded) {
  EXPECT_EQ(canonical_query({{"uploadId", "a+b"}, {"partNumber", "2"}, {"uploads", ""}}),
            "partNumber=2&uploadId=a%2Bb&uploads=");
}

TEST(AmzDate, IsUtcToTheSecond) {
  using namespace std::chrono;
  EXPECT_EQ(amz_date(Time{sys_days{2015y / 8 / 30} + 12h + 36min + 999ms}), suite_date);
}

}  // namespace
}  // namespace trainyard::storage

#include "storage/s3_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;
using testing::Not;

const Uri uri{.scheme = Scheme::s3, .bucket = "models", .path = "run"};

TEST(MakeS3Config, FindsTheEndpointAsTheAwsToolsDo) {
  struct Row {
    std::string_view name;
    S3Options options;
    Environment environment;
    std::string endpoint;
    bool path_style;
    std::string region;
  };
  const Row rows[] = {
      {"AWS by default", {}, environment_of({}), "https://models.s3.us-east-1.amazonaws.com", false, "us-east-1"},
      {"a region",
       {.endpoint = {}, .region = "eu-west-1"},
       environment_of({}),
       "https://models.s3.eu-west-1.amazonaws.com",
       false,
       "eu-west-1"},
      {"the spec's region before the environment's",
       {.endpoint = {}, .region = "eu-west-1"},
       environment_of({{"AWS_REGION", "eu-west-2"}}),
       "https://models.s3.eu-west-1.amazonaws.com",
       false,
       "eu-west-1"},
      {"the environment's region",
       {},
       environment_of({{"AWS_REGION", "eu-west-2"}, {"AWS_DEFAULT_REGION", "x"}}),
       "https://models.s3.eu-west-2.amazonaws.com",
       false,
       "eu-west-2"},
      {"its older name",
       {},
       environment_of({{"AWS_DEFAULT_REGION", "eu-west-3"}}),
       "https://models.s3.eu-west-3.amazonaws.com",
       false,
       "eu-west-3"},
      {"an endpoint",
       {.endpoint = "https://s3.example.com/"},
       environment_of({}),
       "https://s3.example.com",
       true,
       "us-east-1"},
      {"a service's dotted name",
       {.endpoint = "http://minio.minio.svc:9000"},
       environment_of({}),
       "http://minio.minio.svc:9000",
       true,
       "us-east-1"},
      {"an endpoint that wants the bucket in front",
       {.endpoint = "https://oss.example.com", .region = {}, .path_style = false},
       environment_of({}),
       "https://models.oss.example.com",
       false,
       "us-east-1"},
      {"AWS's own that is given",
       {.endpoint = "https://s3.dualstack.eu-west-1.amazonaws.com"},
       environment_of({}),
       "https://models.s3.dualstack.eu-west-1.amazonaws.com",
       false,
       "us-east-1"},
      {"AWS's own in China",
       {.endpoint = {}, .region = "cn-north-1"},
       environment_of({}),
       "https://models.s3.cn-north-1.amazonaws.com.cn",
       false,
       "cn-north-1"},
      {"path style at AWS",
       {.endpoint = {}, .region = {}, .path_style = true},
       environment_of({}),
       "https://s3.us-east-1.amazonaws.com",
       true,
       "us-east-1"},
      {"path style",
       {.endpoint = "https://s3.example.com:9000", .region = {}, .path_style = true},
       environment_of({}),
       "https://s3.example.com:9000",
       true,
       "us-east-1"},
      {"an address is always path style",
       {.endpoint = "http://10.0.0.1:9000"},
       environment_of({}),
       "http://10.0.0.1:9000",
       true,
       "us-east-1"},
      {"so is a service's bare name",
       {.endpoint = "http://minio:9000"},
       environment_of({}),
       "http://minio:9000",
       true,
       "us-east-1"},
      {"whatever characters it has",
       {.endpoint = "http://my-minio_1:9000"},
       environment_of({}),
       "http://my-minio_1:9000",
       true,
       "us-east-1"},
      {"and an IPv6 address",
       {.endpoint = "http://[::1]:9000"},
       environment_of({}),
       "http://[::1]:9000",
       true,
       "us-east-1"},
      {"the scheme's own port is not said",
       {.endpoint = "https://s3.example.com:443", .region = {}, .path_style = true},
       environment_of({}),
       "https://s3.example.com",
       true,
       "us-east-1"},
      {"nor that of http",
       {.endpoint = "http://s3.example.com:80"},
       environment_of({}),
       "http://s3.example.com",
       true,
       "us-east-1"},
      {"another scheme's port is",
       {.endpoint = "http://s3.example.com:443"},
       environment_of({}),
       "http://s3.example.com:443",
       true,
       "us-east-1"},
      {"a bare name with the bucket in front has no address",
       {.endpoint = "http://minio:9000", .region = {}, .path_style = false},
       environment_of({}),
       "http://minio:9000",
       true,
       "us-east-1"},
      {"nor an address without a port",
       {.endpoint = "http://10.0.0.1", .region = {}, .path_style = false},
       environment_of({}),
       "http://10.0.0.1",
       true,
       "us-east-1"},
      {"nor an IPv6 address",
       {.endpoint = "http://[fd00::1]:9000", .region = {}, .path_style = false},
       environment_of({}),
       "http://[fd00::1]:9000",
       true,
       "us-east-1"},
      {"a name that only ends like AWS's",
       {.endpoint = "https://s3.notamazonaws.com"},
       environment_of({}),
       "https://s3.notamazonaws.com",
       true,
       "us-east-1"},
      {"AWS's own in China that is given",
       {.endpoint = "https://s3.cn-north-1.amazonaws.com.cn:8443"},
       environment_of({}),
       "https://models.s3.cn-north-1.amazonaws.com.cn:8443",
       false,
       "us-east-1"},
      {"the environment's endpoint",
       {},
       environment_of({{"AWS_ENDPOINT_URL", "http://a:1"}, {"AWS_ENDPOINT_URL_S3", "http://b:2"}}),
       "http://b:2",
       true,
       "us-east-1"},
      {"its general one", {}, environment_of({{"AWS_ENDPOINT_URL", "http://a:1"}}), "http://a:1", true, "us-east-1"},
      {"the spec's before the environment's",
       {.endpoint = "http://c:3"},
       environment_of({{"AWS_ENDPOINT_URL", "http://a:1"}}),
       "http://c:3",
       true,
       "us-east-1"},
  };
  for (const Row& row : rows) {
    const auto config = make_s3_config(uri, row.options, row.environment);
    ASSERT_TRUE(config) << row.name << ": " << config.error().message;
    EXPECT_EQ(config->endpoint(), row.endpoint) << row.name;
    EXPECT_EQ(config->path_style, row.path_style) << row.name;
    EXPECT_EQ(config->region, row.region) << row.name;
  }
}

TEST(MakeS3Config, SwitchesChecksumsAsTheAwsToolsDo) {
  for (const auto& [word, checksums] :
       {std::pair{"", S3Checksums::automatic}, std::pair{"when_supported", S3Checksums::required},
        std::pair{"WHEN_REQUIRED", S3Checksums::off}}) {
    const auto config = make_s3_config(uri, {}, environment_of({{"AWS_REQUEST_CHECKSUM_CALCULATION", word}}));
    ASSERT_TRUE(config) << word;
    EXPECT_EQ(config->checksums, checksums) << word;
  }
  const auto config = make_s3_config(uri, {}, environment_of({{"AWS_REQUEST_CHECKSUM_CALCULATION", "never"}}));
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("write when_supported or when_required"));
}

TEST(MakeS3Config, PutsABucketThatIsNoHostNameIntoThePath) {
  const auto config = make_s3_config({.scheme = Scheme::s3, .bucket = "with.dots", .path = ""}, {}, environment_of({}));
  EXPECT_EQ(config->endpoint(), "https://s3.us-east-1.amazonaws.com");
  for (const char* bucket : {"with_underscore", "Capital"}) {
    EXPECT_TRUE(
        make_s3_config({.scheme = Scheme::s3, .bucket = bucket, .path = ""}, {}, environment_of({}))->path_style)
        << bucket;
  }
}

TEST(MakeS3Config, TakesKeyTokenAndCertificates) {
  const auto config = make_s3_config(uri, {},
                                     environment_of({{"AWS_ACCESS_KEY_ID", "id"},
                                                     {"AWS_SECRET_ACCESS_KEY", "secret"},
                                                     {"AWS_SESSION_TOKEN", "token"},
                                                     {"AWS_CA_BUNDLE", "/ca.pem"}}));
  EXPECT_EQ(config->credentials->get(), (Credentials{"id", "secret", "token"}));
  EXPECT_EQ(config->ca_bundle, "/ca.pem");
}

TEST(MakeS3Config, TakesRegionAndEndpointFromTheProfileWhenNothingElseSaysThem) {
  const fakes::TemporaryFolder folder;
  std::map<std::string, std::string> variables = {
      {"AWS_PROFILE", "work"}, {"AWS_CONFIG_FILE", folder.write("config", "[profile work]\nregion = cn-north-1\n")}};
  EXPECT_EQ(make_s3_config(uri, {}, environment_of(variables))->endpoint(),
            "https://models.s3.cn-north-1.amazonaws.com.cn");
  folder.write("config", "[profile work]\nregion = eu-west-1\nendpoint_url = http://a:1\n");
  EXPECT_EQ(make_s3_config(uri, {}, environment_of(variables))->endpoint(), "http://a:1");
  EXPECT_EQ(make_s3_config(uri, {}, environment_of(variables))->region, "eu-west-1");
  variables["AWS_REGION"] = "eu-west-2";
  EXPECT_EQ(make_s3_config(uri, {}, environment_of(variables))->region, "eu-west-2");
  variables["AWS_ENDPOINT_URL"] = "http://b:2";
  EXPECT_EQ(make_s3_config(uri, {}, environment_of(variables))->endpoint(), "http://b:2");
}

TEST(MakeS3Config, SwitchesChecksumsAsTheProfileSaysWhenTheEnvironmentDoesNot) {
  const fakes::TemporaryFolder folder;
  std::map<std::string, std::string> variables = {
      {"AWS_CONFIG_FILE", folder.write("config", "[default]\nrequest_checksum_calculation = when_required\n")}};
  EXPECT_EQ(make_s3_config(uri, {}, environment_of(variables))->checksums, S3Checksums::off);
  variables["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_supported";
  EXPECT_EQ(make_s3_config(uri, {}, environment_of(variables))->checksums, S3Checksums::required);
}

TEST(MakeS3Config, RefusesAnEndpointThatIsNoUrlAndRepeatsNoPassword) {
  for (const char* endpoint :
       {"s3.example.com", "ftp://a", "https://", "http://a b", "https://user:hunter2@host", "http://host/path"}) {
    const auto config = make_s3_config(uri, {.endpoint = endpoint}, environment_of({}));
    ASSERT_FALSE(config) << endpoint;
    EXPECT_EQ(config.error().kind, ErrorKind::invalid);
    EXPECT_THAT(config.error().message, HasSubstr("https://host:port"));
    EXPECT_THAT(config.error().message, Not(HasSubstr("hunter2")));
  }
}

}  // namespace
}  // namespace trainyard::storage

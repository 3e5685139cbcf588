#include "storage/gcs_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/storage/environment_table.hpp"

namespace trainyard::storage {
namespace {

const Uri gs_models{.scheme = Scheme::gs, .bucket = "models", .path = "run"};

TEST(GcsSettings, AreGooglesUnlessAnEmulatorIsNamed) {
  const auto google = make_gcs_settings(gs_models, environment_of({}));
  ASSERT_TRUE(google);
  EXPECT_EQ(google->bucket, "models");
  EXPECT_EQ(google->prefix, "run");
  EXPECT_EQ(google->endpoint, "https://storage.googleapis.com");
  EXPECT_TRUE(google->tokens);

  for (const char* name : {"STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"}) {
    for (const char* text : {"localhost:4443", "http://localhost:4443", "http://localhost:4443/"}) {
      const auto emulated = make_gcs_settings(gs_models, environment_of({{name, text}}));
      ASSERT_TRUE(emulated) << text;
      EXPECT_EQ(emulated->endpoint, "http://localhost:4443");
      EXPECT_FALSE(emulated->tokens) << "an emulator gets no credentials";
    }
  }
}

TEST(GcsSettings, NameTheFirstOfTwoEmulators) {
  const auto settings = make_gcs_settings(gs_models, environment_of({{"CLOUD_STORAGE_EMULATOR_ENDPOINT", "https://b"},
                                                                     {"STORAGE_EMULATOR_HOST", "https://a:1"}}));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->endpoint, "https://a:1");
}

TEST(GcsSettings, SendNoTokenWhereCredentialsAreDisabled) {
  for (const char* text : {"true", "True", "1", "yes"}) {
    const auto settings = make_gcs_settings(gs_models, environment_of({{"CLOUDSDK_AUTH_DISABLE_CREDENTIALS", text}}));
    ASSERT_TRUE(settings);
    EXPECT_EQ(settings->endpoint, "https://storage.googleapis.com");
    EXPECT_FALSE(settings->tokens) << text;
  }
  EXPECT_TRUE(make_gcs_settings(gs_models, environment_of({{"CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "false"}}))->tokens);
}

TEST(GcsSettings, NameTheFileOfCertificates) {
  EXPECT_EQ(make_gcs_settings(gs_models, environment_of({{"SSL_CERT_FILE", "a"}, {"AWS_CA_BUNDLE", "b"}}))->ca_bundle,
            "a");
  EXPECT_EQ(make_gcs_settings(gs_models, environment_of({{"AWS_CA_BUNDLE", "b"}}))->ca_bundle, "b");
}

TEST(GcsSettings, SayWhichVariableIsWrong) {
  for (const char* text : {"ftp://host", "http://", "http://user@host", "a b"}) {
    const auto wrong = make_gcs_settings(gs_models, environment_of({{"STORAGE_EMULATOR_HOST", text}}));
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().kind, ErrorKind::invalid);
    EXPECT_THAT(wrong.error().message, testing::HasSubstr("STORAGE_EMULATOR_HOST is no address"));
  }
}

}  // namespace
}  // namespace trainyard::storage

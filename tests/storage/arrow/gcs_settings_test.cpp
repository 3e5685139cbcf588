#include "storage/arrow/gcs_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/storage/environment_table.hpp"

namespace trainyard::storage {
namespace {

TEST(GcsSettings, AreGooglesUnlessAnEmulatorIsNamed) {
  const auto google = gcs_settings(environment_of({}));
  ASSERT_TRUE(google);
  EXPECT_FALSE(google->emulator);
  EXPECT_EQ(google->url(), "https://storage.googleapis.com/");

  const Endpoint expected{.scheme = "http", .authority = "localhost:4443", .path = {}};
  for (const char* name : {"STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"}) {
    for (const char* text : {"localhost:4443", "http://localhost:4443", "http://localhost:4443/"}) {
      const auto emulated = gcs_settings(environment_of({{name, text}}));
      ASSERT_TRUE(emulated) << text;
      EXPECT_EQ(emulated->emulator, expected) << text;
      EXPECT_EQ(emulated->url(), "http://localhost:4443/");
    }
  }
}

TEST(GcsSettings, SayWhichVariableIsWrong) {
  for (const char* text : {"ftp://host", "http://", "http://user@host", "a b"}) {
    const auto wrong = gcs_settings(environment_of({{"STORAGE_EMULATOR_HOST", text}}));
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().kind, ErrorKind::invalid);
    EXPECT_THAT(wrong.error().message, testing::HasSubstr("STORAGE_EMULATOR_HOST is no address"));
  }
}

}  // namespace
}  // namespace trainyard::storage

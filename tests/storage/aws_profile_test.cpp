#include "storage/aws_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;
using Values = std::map<std::string, std::string>;

TEST(ParseProfile, ReadsWhatTheAwsToolsWrite) {
  struct Row {
    const char* name;
    const char* text;
    bool is_config;
    std::optional<Values> values;
  };
  const Row rows[] = {
      {"plain", "[work]\na = b\nC=d=e\n", false, Values{{"a", "b"}, {"c", "d=e"}}},
      {"another section", "[home]\na = 1\n[work]\na = 2\n[last]\na = 3\n", false, Values{{"a", "2"}}},
      {"the config file's own titles", "[profile work]\na = 1\n[work]\na = 2\n", true, Values{{"a", "1"}}},
      {"no title of the config file in the other", "[profile work]\na = 1\n", false, std::nullopt},
      {"comments", "# x\n; y\n[ work ] # z\na = b # c\nd = e;f\n", false, Values{{"a", "b"}, {"d", "e;f"}}},
      {"a comment behind a semicolon", "[work]\na = b ; c\nd =# e\n", false, Values{{"a", "b"}, {"d", "# e"}}},
      {"a comment in a value's place", "[work]\na = # b\nc = ;d\n", false, Values{{"a", ""}, {"c", ""}}},
      {"values that are switched off", "[work]\n# a = b\n;c = d\n", false, Values{}},
      {"a title with a tab", "[profile\twork]\na = 1\n", true, Values{{"a", "1"}}},
      {"a title that only begins so", "[profilework]\na = 1\n[profile]\nb = 2\n", true, std::nullopt},
      {"a line without a value", "[work]\na\nb = 1\n", false, Values{{"b", "1"}}},
      {"one key twice", "[work]\na = 1\na = 2\n", false, Values{{"a", "2"}}},
      {"nested values", "[work]\ns3 =\n  a = 1\nb = 2\n", false, Values{{"s3", ""}, {"b", "2"}}},
      {"Windows' line ends", "[work]\r\na = b\r\n", false, Values{{"a", "b"}}},
      {"twice", "[work]\na = 1\n[work]\nb = 2\n", false, Values{{"a", "1"}, {"b", "2"}}},
      {"empty", "[work]", false, Values{}},
      {"no such", "[other]\na = 1\n", false, std::nullopt},
      {"no end", "[work\na = 1\n", false, std::nullopt},
      {"nothing", "", false, std::nullopt},
  };
  for (const Row& row : rows) EXPECT_EQ(parse_profile(row.text, "work", row.is_config), row.values) << row.name;
  EXPECT_EQ(parse_profile("[default]\na = 1\n", "default", true), (Values{{"a", "1"}}));
}

class ProfileFilesTest : public testing::Test {
 protected:
  [[nodiscard]] AwsProfile read(std::map<std::string, std::string> more = {}) const {
    more.emplace("AWS_SHARED_CREDENTIALS_FILE", folder_.file("credentials").string());
    more.emplace("AWS_CONFIG_FILE", folder_.file("config").string());
    return read_profile(environment_of(std::move(more)));
  }
  fakes::TemporaryFolder folder_;
};

TEST_F(ProfileFilesTest, GivesTheProfilesKeyAndRegion) {
  folder_.write("config",
                "[default]\nregion = eu-west-1\n[profile work]\nregion = eu-west-2\naws_access_key_id = old\n");
  folder_.write("credentials",
                "[default]\naws_access_key_id = id\naws_secret_access_key = secret\n"
                "[work]\naws_access_key_id = id-2\naws_secret_access_key = secret-2\naws_session_token = token-2\n");
  EXPECT_EQ(read().value("region"), "eu-west-1");
  EXPECT_EQ(profile_key(read()), (Credentials{"id", "secret", ""}));
  const AwsProfile work = read({{"AWS_PROFILE", "work"}});
  EXPECT_EQ(work.value("region"), "eu-west-2");
  EXPECT_EQ(profile_key(work), (Credentials{"id-2", "secret-2", "token-2"}));
}

TEST_F(ProfileFilesTest, IsTheOneThatTheEnvironmentNames) {
  folder_.write("config", "[profile a]\nregion = of-a\n[profile b]\nregion = of-b\n[default]\nregion = usual\n");
  EXPECT_EQ(read({{"AWS_DEFAULT_PROFILE", "b"}}).value("region"), "of-b");
  EXPECT_TRUE(read({{"AWS_DEFAULT_PROFILE", "b"}}).is_named);
  EXPECT_EQ(read({{"AWS_DEFAULT_PROFILE", "b"}, {"AWS_PROFILE", "a"}}).value("region"), "of-a");
  EXPECT_FALSE(read().is_named);
}

TEST_F(ProfileFilesTest, LooksBelowHome) {
  std::filesystem::create_directories(folder_.file(".aws"));
  folder_.write(".aws/credentials", "[default]\naws_access_key_id = id\naws_secret_access_key = secret\n");
  folder_.write("mine", "[default]\nregion = x\n");
  const AwsProfile profile = read_profile(environment_of({{"HOME", folder_.path()}, {"AWS_CONFIG_FILE", "~/mine"}}));
  EXPECT_EQ(profile_key(profile), (Credentials{"id", "secret", ""}));
  EXPECT_EQ(profile.value("region"), "x");
}

TEST_F(ProfileFilesTest, SaysWhatIsMissing) {
  EXPECT_FALSE(read().is_there);
  EXPECT_THAT(read().files, HasSubstr(folder_.path()));
  const AwsProfile named = read({{"AWS_PROFILE", "work"}});
  EXPECT_TRUE(named.is_named && !named.is_there);
  folder_.write("credentials", "[default]\naws_access_key_id = id\n");
  const auto half = profile_key(read());
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().kind, ErrorKind::invalid);
  EXPECT_THAT(half.error().message, HasSubstr("has no aws_secret_access_key"));
  folder_.write("credentials", "[default]\naws_secret_access_key = hush\n");
  EXPECT_THAT(profile_key(read()).error().message,
              testing::AllOf(HasSubstr("has no aws_access_key_id"), testing::Not(HasSubstr("hush"))));
}

TEST_F(ProfileFilesTest, ReadsTheSectionOfALogin) {
  folder_.write("config", "[sso-session corp]\nsso_region = eu-west-1\n[profile corp]\nregion = x\n");
  const Environment environment = environment_of({{"AWS_CONFIG_FILE", folder_.file("config").string()}});
  EXPECT_EQ(read_profile(environment, "sso-session corp").value("sso_region"), "eu-west-1");
  EXPECT_EQ(read_profile(environment, "corp").values, (std::map<std::string, std::string>{{"region", "x"}}));
}

}  // namespace
}  // namespace trainyard::storage

#include "storage/profile_credentials.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/time_text.hpp"
#include "storage/aws_credential_sources.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/loopback_server.hpp"

namespace trainyard::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

AwsProfile a_profile(std::map<std::string, std::string> values) {
  return {.name = "work", .files = "the files", .is_there = true, .is_named = true, .values = std::move(values)};
}

TEST(WayOf, IsTheRoleBeforeTheKey) {
  struct Row {
    std::map<std::string, std::string> values;
    ProfileWay way;
  };
  const std::pair<const std::string, std::string> id{"aws_access_key_id", "id"};
  const std::pair<const std::string, std::string> role{"role_arn", "r"};
  const Row rows[] = {
      {{id, {"aws_secret_access_key", "s"}}, ProfileWay::key},
      {{{"aws_secret_access_key", "s"}, {"credential_process", "p"}}, ProfileWay::key},
      {{id, {"sso_session", "s"}, {"sso_account_id", "1"}, {"sso_role_name", "r"}}, ProfileWay::single_sign_on},
      {{id, role, {"source_profile", "p"}}, ProfileWay::role},
      {{role, {"credential_source", "Environment"}}, ProfileWay::role},
      {{role, {"web_identity_token_file", "/f"}}, ProfileWay::web_identity},
      {{{"credential_process", "p"}}, ProfileWay::process},
      {{id, {"credential_process", "p"}}, ProfileWay::key},
      {{{"sso_session", "s"}, {"sso_account_id", "1"}, {"sso_role_name", "r"}}, ProfileWay::single_sign_on},
      {{{"sso_start_url", "u"}, {"sso_account_id", "1"}, {"sso_role_name", "r"}}, ProfileWay::single_sign_on},
  };
  for (const Row& row : rows) EXPECT_EQ(way_of(a_profile(row.values)), row.way) << row.values.begin()->first;
}

TEST(WayOf, NamesWhatIsMissing) {
  struct Row {
    std::map<std::string, std::string> values;
    ErrorKind kind;
    std::string says;
  };
  const Row rows[] = {
      {{{"region", "x"}}, ErrorKind::not_found, "has no aws_access_key_id"},
      {{{"role_arn", "r"}}, ErrorKind::invalid, "either source_profile or credential_source"},
      {{{"role_arn", "r"}, {"source_profile", "p"}, {"credential_source", "Environment"}},
       ErrorKind::invalid,
       "either source_profile or credential_source"},
      {{{"sso_session", "s"}, {"sso_account_id", "1"}}, ErrorKind::invalid, "has no sso_role_name"},
      {{{"sso_session", "s"}, {"sso_role_name", "1"}}, ErrorKind::invalid, "has no sso_account_id"},
  };
  for (const Row& row : rows) {
    const auto way = way_of(a_profile(row.values));
    ASSERT_FALSE(way) << row.says;
    EXPECT_EQ(way.error().kind, row.kind) << row.says;
    EXPECT_THAT(way.error().message, AllOf(HasSubstr("the profile 'work' of the files"), HasSubstr(row.says)));
  }
}

TEST(WayOf, SaysThatAProfileIsNotThere) {
  AwsProfile missing = a_profile({});
  missing.is_there = false;
  EXPECT_EQ(way_of(missing).error(),
            (Error{ErrorKind::invalid, "the profile 'work' of the files is not there, though it is asked for by name",
                   std::nullopt}));
  missing.is_named = false;
  EXPECT_EQ(way_of(missing).error(),
            (Error{ErrorKind::not_found, "the profile 'work' of the files is not there", std::nullopt}));
}

TEST(WordsOfCommand, AreSplitWithoutAShell) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of_command("/opt/get  --for me"), (Words{"/opt/get", "--for", "me"}));
  EXPECT_EQ(words_of_command(R"("/opt/my tools/get" 'a "b"' c\ d "" x"y z")"),
            (Words{"/opt/my tools/get", "a \"b\"", "c d", "", "xy z"}));
  EXPECT_EQ(words_of_command("get $HOME; rm"), (Words{"get", "$HOME;", "rm"}));
  EXPECT_EQ(words_of_command("\tget\t\ta "), (Words{"get", "a"}));
  EXPECT_EQ(words_of_command(R"('a\b' "c\"d" \  e\)"), (Words{"a\\b", "c\"d", " ", "e\\"}));
  EXPECT_EQ(words_of_command(" "), Words{});
  EXPECT_FALSE(words_of_command("get 'a"));
}

/// A chain over the files of the AWS tools only, with a server that plays STS and SSO.
class ProfileCredentialsTest : public testing::Test {
 protected:
  Result<Credentials> find(const std::string& config, const std::string& credentials = "",
                           std::map<std::string, std::string> more = {}) {
    more.emplace("HOME", folder_.path());
    more.emplace("AWS_CONFIG_FILE", folder_.write("config", config).string());
    more.emplace("AWS_SHARED_CREDENTIALS_FILE", folder_.write("credentials", credentials).string());
    more.emplace("AWS_EC2_METADATA_DISABLED", "true");
    more.emplace("AWS_ENDPOINT_URL_STS", server_.url());
    more.emplace("AWS_ENDPOINT_URL_SSO", server_.url());
    return AwsCredentialChain{aws_credential_sources(environment_of(std::move(more)), "eu-west-1", tuning_)}.get();
  }
  static std::string words_of(const Result<Credentials>& found) { return found ? "found" : found.error().message; }

  fakes::TemporaryFolder folder_;
  AwsCredentialTuning tuning_{.patience = std::chrono::seconds{30}};
  std::vector<std::string> asked_;
  std::string details_;  // Those of the last role that was asked for.
  int refusals_ = 0;
  int status_ = 403;
  LoopbackServer server_{[this](const httplib::Request& request, httplib::Response& response) {
    if (request.method == "GET") {
      asked_.push_back(request.target + " " + request.get_header_value("x-amz-sso_bearer_token"));
      response.set_content(R"({"roleCredentials": {"accessKeyId": "sso", "secretAccessKey": "hush", "sessionToken":
                               "hush-t", "expiration": 1767229200000}})",
                           "application/json");
    } else {
      // "AWS4-HMAC-SHA256 Credential=id/..."; empty for a request with a token.
      const std::string signer = request.get_header_value("authorization");
      const std::string key = signer.substr(signer.find('=') + 1, signer.find('/') - signer.find('='));
      asked_.push_back(fmt::format("{} {} as {}{}", request.get_param_value("Action"),
                                   request.get_param_value("RoleArn"), key, request.get_param_value("ExternalId")));
      const auto value = [&](const char* name) {
        return request.has_param(name) ? request.get_param_value(name) : std::string{"none"};
      };
      // "SignedHeaders=content-type;host;..., Signature=..."
      const bool is_token_signed = signer.find(";x-amz-security-token,") != std::string::npos;
      details_ = fmt::format("session {}, id {}, seconds {}, token {}", value("RoleSessionName"), value("ExternalId"),
                             value("DurationSeconds"),
                             is_token_signed ? request.get_header_value("x-amz-security-token") : "none");
      response.set_content(
          fmt::format("<AssumeRoleResponse><Credentials><AccessKeyId>of-{}</AccessKeyId><SecretAccessKey>hush"
                      "</SecretAccessKey><SessionToken>hush-t</SessionToken><Expiration>2026-01-01T01:00:00Z"
                      "</Expiration></Credentials></AssumeRoleResponse>",
                      request.get_param_value("RoleArn")),
          "text/xml");
    }
    if (refusals_-- > 0) {
      response.status = status_;
      response.set_content("<Error><Code>AccessDenied</Code><Message>not with hush</Message></Error>", "text/xml");
    }
  }};
};

TEST_F(ProfileCredentialsTest, TakeOnARoleWithTheSourceProfilesKey) {
  const std::string config = "[default]\nrole_arn = r1\nsource_profile = base\nexternal_id = -e\n";
  const std::string credentials = "[base]\naws_access_key_id = id\naws_secret_access_key = hush\n";
  const Credentials expected{"of-r1", "hush", "hush-t", parse_rfc3339("2026-01-01T01:00:00Z").value()};
  EXPECT_EQ(find(config, credentials), expected);
  ASSERT_EQ(asked_.size(), 1U);
  EXPECT_THAT(asked_[0], AllOf(HasSubstr("AssumeRole r1 as id/"), HasSubstr("-e")));
  EXPECT_EQ(details_, "session trainyard, id -e, seconds none, token none");
  EXPECT_EQ(find(config + "role_session_name = me\nduration_seconds = 900\n", credentials), expected);
  EXPECT_EQ(details_, "session me, id -e, seconds 900, token none");
  refusals_ = 1;
  EXPECT_EQ(find(config, credentials), expected) << "a role that is seconds old";
}

TEST_F(ProfileCredentialsTest, TakeOnRolesOneAfterTheOther) {
  const std::string config =
      "[default]\nrole_arn = r1\nsource_profile = middle\n"
      "[profile middle]\nrole_arn = r2\nsource_profile = base\n"
      "[profile base]\naws_access_key_id = id\naws_secret_access_key = hush\n";
  const auto found = find(config);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->access_key_id, "of-r1");
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_THAT(asked_[0], HasSubstr("AssumeRole r2 as id/"));
  EXPECT_THAT(asked_[1], HasSubstr("AssumeRole r1 as of-r2/"));
  EXPECT_EQ(details_, "session trainyard, id none, seconds none, token hush-t")
      << "the key of a role comes with a token";
  EXPECT_THAT(words_of(find("[default]\nrole_arn = r1\nsource_profile = other\n"
                            "[profile other]\nrole_arn = r2\nsource_profile = default\n")),
              HasSubstr("does source_profile lead in a circle?"));
  // A profile that names itself means its own key.
  EXPECT_TRUE(
      find("[default]\nrole_arn = r1\nsource_profile = default\naws_access_key_id = id\n"
           "aws_secret_access_key = hush\n"));
}

TEST_F(ProfileCredentialsTest, TakeOnARoleWithAnotherSource) {
  const std::string config = "[profile work]\nrole_arn = r1\ncredential_source = ";
  const std::map<std::string, std::string> work = {{"AWS_PROFILE", "work"},
                                                   {"AWS_CONTAINER_CREDENTIALS_FULL_URI", server_.url() + "/agent"}};
  EXPECT_THAT(words_of(find(config + "Ec2InstanceMetadata\n", "", work)), HasSubstr("AWS_EC2_METADATA_DISABLED"));
  EXPECT_THAT(words_of(find(config + "Moon\n", "", work)), HasSubstr("write Environment, EcsContainer or"));
  EXPECT_TRUE(asked_.empty());
  const auto by_token =
      find("[default]\nrole_arn = r1\nweb_identity_token_file = " + folder_.write("token", "jwt").string() + "\n");
  ASSERT_TRUE(by_token) << by_token.error().message;
  EXPECT_THAT(asked_, testing::ElementsAre(HasSubstr("AssumeRoleWithWebIdentity r1")));
}

TEST_F(ProfileCredentialsTest, TakeOnARoleWithTheContainersKey) {
  LoopbackServer agent{[](const httplib::Request&, httplib::Response& response) {
    response.set_content(R"({"AccessKeyId": "agent", "SecretAccessKey": "hush", "Token": "hush-t"})",
                         "application/json");
  }};
  const auto found = find("[profile work]\nrole_arn = r1\ncredential_source = EcsContainer\n", "",
                          {{"AWS_PROFILE", "work"}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url() + "/agent"}});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(asked_, testing::ElementsAre(HasSubstr("AssumeRole r1 as agent/")));
}

TEST_F(ProfileCredentialsTest, OfARoleMayComeLaterWhereTheContainersKeyMay) {
  tuning_.patience = std::chrono::milliseconds{0};
  LoopbackServer agent{[](const httplib::Request&, httplib::Response& response) { response.status = 503; }};
  const auto found = find("[profile work]\nrole_arn = r1\ncredential_source = EcsContainer\n", "",
                          {{"AWS_PROFILE", "work"}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url()}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unavailable) << found.error().message;
}

TEST_F(ProfileCredentialsTest, OfARoleWithoutAKeyInTheEnvironmentAreLookedForNowhereElse) {
  const auto found = find("[default]\nrole_arn = r1\ncredential_source = Environment\n", "",
                          {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server_.url() + "/agent"}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(),
            (Error{ErrorKind::unauthorized, "the AWS tools' files: AWS_ACCESS_KEY_ID is not set", std::nullopt}));
}

TEST_F(ProfileCredentialsTest, AskAProgramOfThePath) {
  EXPECT_EQ(find(R"([default]
credential_process = echo '{"Version": 1, "AccessKeyId": "id", "SecretAccessKey": "hush"}'
)"),
            (Credentials{"id", "hush", ""}));
  EXPECT_THAT(words_of(find("[default]\ncredential_process = 'a\n")),
              HasSubstr("a credential_process that is no command"));
}

TEST_F(ProfileCredentialsTest, AskForTheRoleOfALoginWithoutASession) {
  std::filesystem::create_directories(folder_.file(".aws/sso/cache"));
  // The file's name is the SHA-1 of the start URL, "corp".
  folder_.write(".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json",
                R"({"accessToken": "hush-login", "expiresAt": "2099-01-01T00:00:00Z"})");
  const std::string config = "[default]\nsso_start_url = corp\nsso_account_id = 123\nsso_role_name = r\n";
  EXPECT_THAT(words_of(find(config)), HasSubstr("has no sso_region"));
  const auto found = find(config + "sso_region = eu-west-1\n");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->access_key_id, "sso");
}

TEST_F(ProfileCredentialsTest, SayWhichRoleIsRefusedWithoutTheKey) {
  tuning_.patience = std::chrono::milliseconds{0};
  const std::string credentials =
      "[default]\nrole_arn = r1\nsource_profile = default\naws_access_key_id = id\naws_secret_access_key = hush\n";
  refusals_ = 100;
  const auto found = find("", credentials);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(found.error().message, AllOf(HasSubstr("assuming the role r1"), Not(HasSubstr("hush"))));
  status_ = 400;
  EXPECT_EQ(find("", credentials).error().kind, ErrorKind::unauthorized);
}

TEST_F(ProfileCredentialsTest, AskAProgram) {
  const auto program = [&](const std::string& body) {
    const std::string path = folder_.write("get", "#!/bin/sh\n" + body + "\n").string();
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return "[default]\ncredential_process = \"" + path + "\" id-1\n";
  };
  EXPECT_EQ(find(program(R"(echo '{"Version": 1, "AccessKeyId": "'$1'", "SecretAccessKey": "hush",
                             "SessionToken": "hush-t", "Expiration": "2026-01-01T01:00:00Z"}')")),
            (Credentials{"id-1", "hush", "hush-t", parse_rfc3339("2026-01-01T01:00:00Z").value()}));
  const auto failed = find(program("echo the vault is locked >&2; exit 3"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(failed.error().message, HasSubstr("ended with exit code 3: the vault is locked"));
  EXPECT_THAT(words_of(find(program("echo hush"))),
              AllOf(HasSubstr("the credential_process " + folder_.file("get").string() + ": its output is not a JSON"),
                    Not(HasSubstr("hush"))));
  const auto none = find("[default]\ncredential_process = /no/such/program\n");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::invalid);
  EXPECT_THAT(none.error().message, HasSubstr("running the credential_process /no/such/program: "));
}

TEST_F(ProfileCredentialsTest, AskForTheRoleOfALogin) {
  const std::string config =
      "[default]\nsso_session = corp\nsso_account_id = 123\nsso_role_name = Train+er\n"
      "[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp\n";
  const auto before = find(config);
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(before.error().message, HasSubstr("is not there: run aws sso login"));
  std::filesystem::create_directories(folder_.file(".aws/sso/cache"));
  // The file's name is the SHA-1 of "corp", as with the AWS tools.
  const std::string path = ".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json";
  folder_.write(path, R"({"accessToken": "hush-login", "expiresAt": "2020-01-01T00:00:00Z"})");
  EXPECT_THAT(words_of(find(config)), AllOf(HasSubstr("is over: run aws sso login"), Not(HasSubstr("hush"))));
  folder_.write(path, R"({"expiresAt": "2099-01-01T00:00:00Z"})");
  EXPECT_THAT(words_of(find(config)), HasSubstr("is not there: run aws sso login"));
  folder_.write(path, R"({"accessToken": "hush-login", "expiresAt": "2099-01-01T00:00:00Z"})");
  EXPECT_EQ(find(config), (Credentials{"sso", "hush", "hush-t", parse_rfc3339("2026-01-01T01:00:00Z").value()}));
  EXPECT_THAT(asked_, testing::ElementsAre("/federation/credentials?account_id=123&role_name=Train%2Ber hush-login"));
  refusals_ = 1;
  const auto refused = find(config);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(refused.error().message, HasSubstr("run aws sso login, and check sso_account_id"));
  EXPECT_THAT(words_of(find("[default]\nsso_session = none\nsso_account_id = 1\nsso_role_name = r\n")),
              HasSubstr("the sso-session 'none', which has no sso_region"));
}

}  // namespace
}  // namespace trainyard::storage

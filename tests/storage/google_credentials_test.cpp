#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <nlohmann/json.hpp>

#include <chrono>

#include "common/time_text.hpp"
#include "storage/gcs_settings.hpp"
#include "storage/google_credentials.hpp"
#include "tests/fakes/certificate_authority.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/loopback_server.hpp"
#include "tests/storage/rfc7515_key.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Variables = std::map<std::string, std::string>;

constexpr const char* an_access_token = R"({"access_token": "hush-token", "expires_in": 3599, "token_type": "Bearer"})";

class GoogleCredentials : public testing::Test {
 protected:
  // The token that a store of gs:// would send.
  Result<AccessToken> find(Variables variables) {
    variables.emplace("HOME", folder.path());
    HttpClient http{{.connect_timeout = 5s, .patience = 1ms, .first_patience = 1ms}};
    return find_google_identity(environment_of(std::move(variables))).and_then([&](const GoogleIdentity& identity) {
      return fetch_google_token(http, identity, now);
    });
  }
  Result<AccessToken> find_in_file(const json& content) {
    return find({{"GOOGLE_APPLICATION_CREDENTIALS", folder.write("key.json", content.dump()).string()}});
  }
  [[nodiscard]] static json service_account(const std::string& token_uri) {
    return {{"type", "service_account"},
            {"client_email", "me@p.iam.gserviceaccount.com"},
            {"private_key_id", "kid-1"},
            {"private_key", rfc7515_private_key},
            {"token_uri", token_uri}};
  }
  [[nodiscard]] json federation(const std::string& url) const {
    return {{"type", "external_account"},
            {"audience", "//iam.googleapis.com/pool"},
            {"subject_token_type", "urn:ietf:params:oauth:token-type:jwt"},
            {"token_url", url + "/sts"},
            {"credential_source", {{"file", folder.file("subject").string()}}}};
  }
  const Time now = parse_rfc3339("2026-01-01T00:00:00Z").value();
  const AccessToken given{"hush-token", now + 3599s};
  fakes::TemporaryFolder folder;
};

TEST_F(GoogleCredentials, OfAServiceAccountAreASignedAssertion) {
  std::string assertion;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.get_param_value("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assertion = request.get_param_value("assertion");
    response.set_content(an_access_token, "application/json");
  }};
  const std::string uri = server.url() + "/token";
  EXPECT_EQ(find_in_file(service_account(uri)), given);
  const json header = {{"alg", "RS256"}, {"typ", "JWT"}, {"kid", "kid-1"}};
  const json claims = {{"iss", "me@p.iam.gserviceaccount.com"},
                       {"scope", "https://www.googleapis.com/auth/devstorage.read_write"},
                       {"aud", uri},
                       {"iat", 1767225600},
                       {"exp", 1767229200}};
  EXPECT_EQ(assertion, signed_jwt(header.dump(), claims.dump(), rfc7515_private_key));
}

TEST_F(GoogleCredentials, OfALoginComeFromTheFileThatGcloudWrites) {
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.get_param_value("grant_type"), "refresh_token");
    EXPECT_EQ(request.get_param_value("client_id"), "id");
    EXPECT_EQ(request.get_param_value("client_secret"), "hush-secret");
    EXPECT_EQ(request.get_param_value("refresh_token"), "hush-refresh");
    response.set_content(an_access_token, "application/json");
  }};
  const json login = {{"type", "authorized_user"},
                      {"client_id", "id"},
                      {"client_secret", "hush-secret"},
                      {"refresh_token", "hush-refresh"},
                      {"token_uri", server.url()}};
  std::filesystem::create_directories(folder.file(".config/gcloud"));
  folder.write(".config/gcloud/application_default_credentials.json", login.dump());
  EXPECT_EQ(find({}), given);
  std::filesystem::rename(folder.file(".config/gcloud"), folder.file("elsewhere"));
  EXPECT_EQ(find({{"CLOUDSDK_CONFIG", folder.file("elsewhere").string()}}), given);
}

TEST_F(GoogleCredentials, OfGcloudThatAreWrittenWrongAreNotThoseThatAVariableNames) {
  std::filesystem::create_directories(folder.file(".config/gcloud"));
  const std::string file = folder.write(".config/gcloud/application_default_credentials.json", "hush");
  const auto found = find({});
  ASSERT_FALSE(found);
  EXPECT_EQ(
      found.error(),
      (Error{ErrorKind::unauthorized, "reading gcloud's credentials in " + file + ": it holds no JSON object", {}}));
}

TEST_F(GoogleCredentials, OfAFederationAreExchangedAndTheFileIsReadAgain) {
  std::vector<std::string> subjects;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.path, "/sts");
    EXPECT_EQ(request.get_param_value("grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
    EXPECT_EQ(request.get_param_value("audience"), "//iam.googleapis.com/pool");
    EXPECT_EQ(request.get_param_value("scope"), "https://www.googleapis.com/auth/devstorage.read_write");
    EXPECT_EQ(request.get_param_value("requested_token_type"), "urn:ietf:params:oauth:token-type:access_token");
    EXPECT_EQ(request.get_param_value("subject_token_type"), "urn:ietf:params:oauth:token-type:jwt");
    subjects.push_back(request.get_param_value("subject_token"));
    response.set_content(an_access_token, "application/json");
  }};
  folder.write("subject", "hush-1\n");
  EXPECT_EQ(find_in_file(federation(server.url())), given);
  folder.write("subject", R"({"token": "hush-2"})");
  json with_format = federation(server.url());
  with_format["credential_source"]["format"] = {{"type", "json"}, {"subject_token_field_name", "token"}};
  EXPECT_EQ(find_in_file(with_format), given);
  EXPECT_EQ(subjects, (std::vector<std::string>{"hush-1", "hush-2"}));
}

TEST_F(GoogleCredentials, OfAFederationMayComeFromAServerAndTakeOnAServiceAccount) {
  std::vector<std::string> paths;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    paths.push_back(request.path);
    if (request.path == "/subject") {
      EXPECT_EQ(request.get_header_value("X-Ask"), "please");
      return response.set_content("hush-subject", "text/plain");
    }
    if (request.path == "/sts") {
      EXPECT_EQ(request.get_param_value("subject_token"), "hush-subject");
      EXPECT_EQ(request.get_param_value("scope"), "https://www.googleapis.com/auth/cloud-platform");
      return response.set_content(R"({"access_token": "hush-federated", "expires_in": 10})", "application/json");
    }
    EXPECT_EQ(request.get_header_value("Authorization"), "Bearer hush-federated");
    EXPECT_EQ(json::parse(request.body),
              (json{{"scope", json::array({"https://www.googleapis.com/auth/devstorage.read_write"})},
                    {"lifetime", "3600s"}}));
    response.set_content(R"({"accessToken": "hush-token", "expireTime": "2026-01-01T01:00:00Z"})", "application/json");
  }};
  json content = federation(server.url());
  content["credential_source"] = {{"url", server.url() + "/subject"}, {"headers", {{"X-Ask", "please"}}}};
  content["service_account_impersonation_url"] = server.url() + "/me:generateAccessToken";
  EXPECT_EQ(find_in_file(content), (AccessToken{"hush-token", now + 1h}));
  EXPECT_EQ(paths, (std::vector<std::string>{"/subject", "/sts", "/me:generateAccessToken"}));
}

TEST_F(GoogleCredentials, OfAFederationWantATokenInTheMemberThatIsNamed) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response&) { ADD_FAILURE() << "it was asked"; }};
  json content = federation(server.url());
  content["credential_source"]["format"] = {{"type", "json"}, {"subject_token_field_name", "token"}};
  for (const char* text : {R"({"other": "hush"})", R"({"token": ""})", "hush", R"(["hush"])"}) {
    folder.write("subject", text);
    const auto found = find_in_file(content);
    ASSERT_FALSE(found) << text;
    EXPECT_EQ(found.error().kind, ErrorKind::unauthorized);
    EXPECT_THAT(found.error().message, AllOf(HasSubstr("subject holds has no member token"), Not(HasSubstr("hush"))));
  }
}

TEST_F(GoogleCredentials, OfAServiceAccountThatIsNotTakenOnSayWhyAndShowNoToken) {
  struct Row {
    int status;
    std::string body;
    ErrorKind kind;
    std::string says;
  };
  const Row rows[] = {
      {403, R"({"error": {"status": "PERMISSION_DENIED", "message": "not with hush-federated"}})",
       ErrorKind::unauthorized, "it answered 403 PERMISSION_DENIED (not with ***)"},
      {503, "", ErrorKind::unavailable, "it answered 503"},
      {200, R"({"expireTime": "2026-01-01T01:00:00Z"})", ErrorKind::invalid, "the reply holds no access token"},
      {200, R"({"accessToken": "hush"})", ErrorKind::invalid, "the reply holds no access token"},
      {200, "hush", ErrorKind::invalid, "the reply holds no access token"},
  };
  for (const Row& row : rows) {
    LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
      if (request.path == "/sts")
        return response.set_content(R"({"access_token": "hush-federated", "expires_in": 10})", "application/json");
      response.status = row.status;
      response.set_content(row.body, "application/json");
    }};
    folder.write("subject", "hush-subject");
    json content = federation(server.url());
    content["service_account_impersonation_url"] = server.url() + "/hush:generateAccessToken";
    const auto found = find_in_file(content);
    ASSERT_FALSE(found) << row.says;
    EXPECT_EQ(found.error().kind, row.kind) << row.says;
    EXPECT_THAT(
        found.error().message,
        AllOf(HasSubstr("taking on a service account at " + server.url() + ": " + row.says), Not(HasSubstr("hush"))));
  }
}

TEST_F(GoogleCredentials, OfAServerThatGivesNoSubjectSayWhy) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) { response.status = 500; }};
  json content = federation(server.url());
  content["credential_source"] = {{"url", server.url() + "/hush"}};
  const auto found = find_in_file(content);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(
      found.error().message,
      AllOf(HasSubstr("asking " + server.url() + " for a token to exchange: it answered 500"), Not(HasSubstr("hush"))));
}

TEST_F(GoogleCredentials, OfAServiceAccountWithoutAKeysIdNameNone) {
  std::string assertion;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    assertion = request.get_param_value("assertion");
    response.set_content(an_access_token, "application/json");
  }};
  json account = service_account(server.url());
  account.erase("private_key_id");
  EXPECT_EQ(find_in_file(account), given);
  EXPECT_EQ(assertion.substr(0, assertion.find('.')), encode_base64url(R"({"alg":"RS256","typ":"JWT"})"));
}

TEST_F(GoogleCredentials, OfAMachineComeFromTheFirstMetadataServerThatIsNamed) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) {
    response.set_content(an_access_token, "application/json");
  }};
  const std::string host = fmt::format("127.0.0.1:{}", server.port());
  EXPECT_EQ(find({{"GCE_METADATA_ROOT", host}}), given);
  EXPECT_EQ(find({{"GCE_METADATA_HOST", host}, {"GCE_METADATA_ROOT", "127.0.0.1:1"}}), given);
  const auto named = find_google_identity(environment_of({{"HOME", folder.path()}}));
  EXPECT_EQ(std::get<GoogleMetadata>(*named).url, "http://metadata.google.internal");
}

TEST_F(GoogleCredentials, OfAMachineComeFromItsMetadataServer) {
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.target, "/computeMetadata/v1/instance/service-accounts/default/token");
    EXPECT_EQ(request.get_header_value("Metadata-Flavor"), "Google");
    response.set_content(an_access_token, "application/json");
  }};
  EXPECT_EQ(find({{"GCE_METADATA_HOST", fmt::format("127.0.0.1:{}", server.port())}}), given);
}

TEST_F(GoogleCredentials, SayWhatIsMissingWhereThereAreNone) {
  const auto found = find({{"GCE_METADATA_HOST", fmt::format("127.0.0.1:{}", fakes::free_port())}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unavailable) << "a metadata server may still be starting";
  EXPECT_THAT(
      found.error().message,
      AllOf(HasSubstr("no Google credentials were found"), HasSubstr("GOOGLE_APPLICATION_CREDENTIALS is not set"),
            HasSubstr("application_default_credentials.json is not there"), HasSubstr("checkpoint.credentialsSecret")));
}

TEST_F(GoogleCredentials, ThatAreRefusedSayWhyAndShowNoSecret) {
  struct Row {
    int status;
    ErrorKind kind;
  };
  for (const Row& row :
       {Row{400, ErrorKind::unauthorized}, Row{429, ErrorKind::throttled}, Row{503, ErrorKind::unavailable}}) {
    LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
      response.status = row.status;
      response.set_content(json{{"error", "invalid_grant"},
                                {"error_description", "Not with " + request.get_param_value("subject_token") + "."}}
                               .dump(),
                           "application/json");
    }};
    folder.write("subject", "hush-subject");
    const auto found = find_in_file(federation(server.url()));
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, row.kind) << row.status;
    EXPECT_THAT(found.error().message,
                AllOf(HasSubstr(server.url()), HasSubstr("invalid_grant (Not with ***)"), Not(HasSubstr("hush"))));
  }
}

TEST_F(GoogleCredentials, ThatAreWrittenWrongNameWhatIsMissing) {
  json no_key = service_account("https://oauth2.googleapis.com/token");
  no_key.erase("private_key");
  json bad_key = service_account("https://127.0.0.1:1/token");
  bad_key["private_key"] = "hush";
  json executable = federation("https://sts.googleapis.com");
  executable["credential_source"] = {{"executable", {{"command", "hush"}}}, {"url", "http://hush"}};
  json aws = federation("https://sts.googleapis.com");
  aws["credential_source"] = {{"environment_id", "aws1"}, {"url", "http://169.254.169.254"}};
  struct Row {
    std::string text;
    std::string says;
  };
  const auto without = [](json object, const char* member) {
    object.erase(member);
    return object.dump();
  };
  const json account = service_account("https://127.0.0.1:1/token");
  const json login = {{"type", "authorized_user"},
                      {"client_id", "id"},
                      {"client_secret", "hush"},
                      {"refresh_token", "hush-token"},
                      {"token_uri", "http://evil"}};
  const json pool = federation("https://sts.googleapis.com");
  json taken_on = pool;
  taken_on["service_account_impersonation_url"] = "http://evil/hush";
  const auto from = [&](const json& source) {
    json object = pool;
    object["credential_source"] = source;
    return object.dump();
  };
  const Row rows[] = {
      {without(account, "client_email"), "service_account need the member client_email, which is missing"},
      {without(login, "client_id"), "authorized_user need the member client_id, which is missing"},
      {without(login, "refresh_token"), "refresh_token, which is missing"},
      {login.dump(), "token_uri is refused"},
      {without(pool, "audience"), "external_account need the member audience, which is missing"},
      {without(pool, "subject_token_type"), "subject_token_type, which is missing"},
      {without(pool, "token_url"), "token_url, which is missing"},
      {without(pool, "credential_source"), "credential_source, which is missing"},
      {taken_on.dump(), "service_account_impersonation_url is refused"},
      {from({{"file", "/hush"}, {"url", "http://hush"}}), "name a file or a url, one of the two"},
      {from(json::object()), "name a file or a url, one of the two"},
      {from({{"certificate", "hush"}, {"url", "http://hush"}}), "name a file or a url"},
      {from({{"file", "/hush"}, {"format", {{"type", "json"}}}}), "subject_token_field_name, which is missing"},
      {"hush", "no JSON object"},
      {R"({"type": "hush"})", "its type is not known here"},
      {no_key.dump(), "private_key, which is missing"},
      {bad_key.dump(), "the private key is not an RSA key"},
      {service_account("http://evil/hush").dump(), "token_uri is refused"},
      {federation("http://evil").dump(), "token_url is refused"},
      {executable.dump(), "name a file or a url"},
      {aws.dump(), "name a file or a url"},
      {R"({"type": "authorized_user", "client_id": "id"})", "client_secret, which is missing"},
  };
  for (const Row& row : rows) {
    const std::string path = folder.write("key.json", row.text);
    const auto found = find({{"GOOGLE_APPLICATION_CREDENTIALS", path}});
    ASSERT_FALSE(found) << row.says;
    EXPECT_EQ(found.error().kind, ErrorKind::unauthorized);
    EXPECT_THAT(found.error().message, AllOf(HasSubstr(row.says), Not(HasSubstr("hush"))));
  }
  const auto none = find({{"GOOGLE_APPLICATION_CREDENTIALS", folder.file("none").string()}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(none.error().message, HasSubstr("which GOOGLE_APPLICATION_CREDENTIALS names"));
}

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
  const std::string elliptic = fakes::CertificateAuthority{"test"}.issue("a").key_pem;
  for (const std::string& text : {std::string{"hush"}, std::string{}, key.substr(0, key.size() / 2), elliptic}) {
    const auto jwt = signed_jwt("{}", "{}", text);
    ASSERT_FALSE(jwt) << text;
    EXPECT_EQ(jwt.error(), (Error{ErrorKind::unauthorized, "the private key is not an RSA key in PEM", {}}));
    EXPECT_EQ(ERR_peek_error(), 0U) << "libcurl would take the error for that of its own connection";
  }
}

}  // namespace
}  // namespace trainyard::storage

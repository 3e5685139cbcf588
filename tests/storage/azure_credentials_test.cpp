#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/time_text.hpp"
#include "storage/azure_credentials.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/loopback_server.hpp"

namespace trainyard::storage {
namespace {

using Variables = std::map<std::string, std::string>;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

TEST(AzureSettings, AreReadWhereAzuresToolsReadThem) {
  struct Row {
    std::string name;
    Variables variables;
    AzureSettings expected;
  };
  const AzureSettings plain{
      .account = "acme", .host = "acme.blob.core.windows.net", .account_key = {}, .sas_token = {}};
  AzureSettings with_key = plain;
  with_key.account_key = "a2V5==";
  AzureSettings with_token = plain;
  with_token.sas_token = "sv=2021&sig=x%3D";
  AzureSettings china = with_key;
  china.host = "acme.blob.core.chinacloudapi.cn";
  const AzureSettings emulator{.account = "acme",
                               .scheme = "http",
                               .host = "127.0.0.1:10000",
                               .has_account_path = true,
                               .account_key = "a2V5==",
                               .sas_token = {}};
  AzureSettings standard_emulator = emulator;
  standard_emulator.account = "devstoreaccount1";
  standard_emulator.account_key =
      "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
  AzureSettings plain_http = with_key;
  plain_http.scheme = "http";
  const std::vector<Row> rows = {
      {"another scheme",
       {{"AZURE_STORAGE_CONNECTION_STRING", "DefaultEndpointsProtocol=http;AccountName=acme;AccountKey=a2V5=="}},
       plain_http},
      {"both names of the account",
       {{"AZURE_STORAGE_ACCOUNT", "other"}, {"AZURE_STORAGE_ACCOUNT_NAME", "acme"}},
       plain},
      {"a connection string without a key before a key in another variable",
       {{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=acme"},
        {"AZURE_STORAGE_ACCOUNT_KEY", "b3RoZXI="},
        {"AZURE_STORAGE_SAS_TOKEN", "sig=other"}},
       plain},
      {"a connection string without an account",
       {{"AZURE_STORAGE_CONNECTION_STRING", "AccountKey=a2V5=="}, {"AZURE_STORAGE_ACCOUNT_NAME", "acme"}},
       with_key},
      {"a connection string's endpoint before another",
       {{"AZURE_STORAGE_CONNECTION_STRING",
         "AccountName=acme;AccountKey=a2V5==;BlobEndpoint=http://127.0.0.1:10000/acme;"},
        {"AZURE_STORAGE_BLOB_ENDPOINT", "https://acme.blob.core.chinacloudapi.cn"}},
       emulator},
      {"an endpoint beside a connection string without one",
       {{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=acme;AccountKey=a2V5=="},
        {"AZURE_STORAGE_BLOB_ENDPOINT", "http://127.0.0.1:10000/acme"}},
       emulator},
      {"an endpoint of the account that is named",
       {{"AZURE_STORAGE_ACCOUNT_NAME", "acme"},
        {"AZURE_STORAGE_ACCOUNT_KEY", "a2V5=="},
        {"AZURE_STORAGE_BLOB_ENDPOINT", "https://acme.blob.core.chinacloudapi.cn"}},
       china},
      {"an account alone", {{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}}, plain},
      {"the az tool's names", {{"AZURE_STORAGE_ACCOUNT", "acme"}, {"AZURE_STORAGE_KEY", "a2V5=="}}, with_key},
      {"adlfs's names", {{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_ACCOUNT_KEY", "a2V5=="}}, with_key},
      {"a token",
       {{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_SAS_TOKEN", "sv=2021&sig=x%3D"}},
       with_token},
      {"a key before a token",
       {{"AZURE_STORAGE_ACCOUNT_NAME", "acme"},
        {"AZURE_STORAGE_ACCOUNT_KEY", "a2V5=="},
        {"AZURE_STORAGE_SAS_TOKEN", "?sv=2021"}},
       with_key},
      {"a connection string",
       {{"AZURE_STORAGE_CONNECTION_STRING",
         "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=a2V5==;EndpointSuffix=core.windows.net"}},
       with_key},
      {"a connection string before other variables",
       {{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=acme;SharedAccessSignature=?sv=2021&sig=x%3D;"},
        {"AZURE_STORAGE_ACCOUNT_NAME", "other"},
        {"AZURE_STORAGE_ACCOUNT_KEY", "b3RoZXI="}},
       with_token},
      {"another cloud of Azure's",
       {{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=acme;AccountKey=a2V5==;EndpointSuffix=core.chinacloudapi.cn"}},
       china},
      {"another cloud by its endpoint, which names the account",
       {{"AZURE_STORAGE_BLOB_ENDPOINT", "https://acme.blob.core.chinacloudapi.cn/"},
        {"AZURE_STORAGE_ACCOUNT_KEY", "a2V5=="}},
       china},
      {"an emulator by its endpoint",
       {{"AZURE_STORAGE_BLOB_ENDPOINT", "http://127.0.0.1:10000/acme"}, {"AZURE_STORAGE_ACCOUNT_KEY", "a2V5=="}},
       emulator},
      {"an emulator by a connection string",
       {{"AZURE_STORAGE_CONNECTION_STRING",
         "AccountName=acme;AccountKey=a2V5==;BlobEndpoint=http://127.0.0.1:10000/acme;"}},
       emulator},
      {"the emulator as all know it",
       {{"AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"}},
       standard_emulator},
  };
  for (const Row& row : rows) {
    const auto settings = azure_settings(environment_of(row.variables));
    ASSERT_TRUE(settings) << row.name << ": " << settings.error().message;
    EXPECT_EQ(*settings, row.expected) << row.name << ": " << settings->account << " " << settings->endpoint();
  }
}

TEST(AzureSettings, SayWhichVariableIsWrongAndNeverItsValue) {
  struct Row {
    Variables variables;
    std::string says;
  };
  const Row rows[] = {
      {{}, "AZURE_STORAGE_ACCOUNT_NAME"},
      {{{"AZURE_STORAGE_ACCOUNT_KEY", "hush"}}, "no storage account is named"},
      {{{"AZURE_STORAGE_CONNECTION_STRING", "hush"}}, "AZURE_STORAGE_CONNECTION_STRING is no list"},
      {{{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=acme;=hush"}}, "AZURE_STORAGE_CONNECTION_STRING is no list"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "http://127.0.0.1:10000/other"}},
       "AZURE_STORAGE_BLOB_ENDPOINT does not name the account"},
      {{{"AZURE_STORAGE_CONNECTION_STRING", "AccountKey=hush"}}, "no storage account is named"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "ftp://hush/acme"}},
       "AZURE_STORAGE_BLOB_ENDPOINT is no address"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "https://host/?sig=hush"}},
       "AZURE_STORAGE_BLOB_ENDPOINT is no address"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "http://127.0.0.1:10000"}},
       "AZURE_STORAGE_BLOB_ENDPOINT does not name the account"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "https://other.blob.core.windows.net"}},
       "AZURE_STORAGE_BLOB_ENDPOINT does not name the account"},
      {{{"AZURE_STORAGE_BLOB_ENDPOINT", "https://example.com"}},
       "AZURE_STORAGE_BLOB_ENDPOINT does not name the account"},
      {{{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=acme;BlobEndpoint=http://user:hush@host/acme"}},
       "BlobEndpoint of AZURE_STORAGE_CONNECTION_STRING is no address"},
  };
  for (const Row& row : rows) {
    const auto settings = azure_settings(environment_of(row.variables));
    ASSERT_FALSE(settings) << row.says;
    EXPECT_EQ(settings.error().kind, ErrorKind::invalid);
    EXPECT_THAT(settings.error().message, HasSubstr(row.says));
    EXPECT_THAT(settings.error().message, Not(HasSubstr("hush")));
  }
}

class AzureCredentials : public testing::Test {
 protected:
  Result<AccessToken> find(Variables variables) {
    HttpClient http{{.connect_timeout = 5s, .patience = 1ms, .first_patience = 1ms}};
    return fetch_azure_token(http, environment_of(std::move(variables)), now);
  }
  [[nodiscard]] static Variables client_at(const std::string& authority) {
    return {{"AZURE_AUTHORITY_HOST", authority + "/"}, {"AZURE_TENANT_ID", "tenant"}, {"AZURE_CLIENT_ID", "client"}};
  }
  // A program that stands in for the az tool.
  [[nodiscard]] std::string az_that(const std::string& script) const {
    const auto path = folder.write("az", "#!/bin/sh\n" + script);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return folder.path();
  }
  const Time now = parse_rfc3339("2026-01-01T00:00:00Z").value();
  const AccessToken given{"hush-token", now + 1h};
  fakes::TemporaryFolder folder;
};

TEST_F(AzureCredentials, OfAClientWithASecret) {
  LoopbackServer server{[](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.target, "/tenant/oauth2/v2.0/token");
    EXPECT_EQ(request.get_param_value("grant_type"), "client_credentials");
    EXPECT_EQ(request.get_param_value("client_id"), "client");
    EXPECT_EQ(request.get_param_value("client_secret"), "hush-secret");
    EXPECT_EQ(request.get_param_value("scope"), "https://storage.azure.com/.default");
    response.set_content(R"({"access_token": "hush-token", "expires_in": 3600})", "application/json");
  }};
  Variables variables = client_at(server.url());
  variables["AZURE_CLIENT_SECRET"] = "hush-secret";
  EXPECT_EQ(find(variables), given);
}

TEST_F(AzureCredentials, OfAWorkloadIdentityWhoseFileIsReadAgain) {
  std::vector<std::string> assertions;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.get_param_value("client_assertion_type"),
              "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    assertions.push_back(request.get_param_value("client_assertion"));
    response.set_content(R"({"access_token": "hush-token", "expires_in": 3600})", "application/json");
  }};
  Variables variables = client_at(server.url());
  variables["AZURE_FEDERATED_TOKEN_FILE"] = folder.write("token", "hush-1\n");
  EXPECT_EQ(find(variables), given);
  folder.write("token", "hush-2");
  EXPECT_EQ(find(variables), given);
  EXPECT_EQ(assertions, (std::vector<std::string>{"hush-1", "hush-2"}));
}

TEST_F(AzureCredentials, OfTheAzToolBeforeAManagedIdentity) {
  const std::string path = az_that(
      R"([ "$*" = "account get-access-token --resource https://storage.azure.com --output json" ] || exit 2
echo '{"accessToken": "hush-token", "expires_on": 1767229200, "expiresOn": "local time"}')");
  EXPECT_EQ(find({{"PATH", path}}), given);
  EXPECT_EQ(find({{"PATH", "/nowhere:" + path}}), given);
}

TEST_F(AzureCredentials, OfNoAzToolInAFolderThatIsNotAbsolute) {
  const std::string path = std::filesystem::relative(az_that(R"(echo '{"accessToken": "hush-other"}')")).string();
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) {
    response.set_content(R"({"access_token": "hush-token", "expires_in": 3600})", "application/json");
  }};
  EXPECT_EQ(find({{"PATH", path + "::."}, {"AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url()}}), given);
}

TEST_F(AzureCredentials, OfAClientBeforeAWorkloadIdentity) {
  std::string secret;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    secret = request.get_param_value("client_secret");
    response.set_content(R"({"access_token": "hush-token", "expires_in": 3600})", "application/json");
  }};
  Variables variables = client_at(server.url());
  variables["AZURE_CLIENT_SECRET"] = "hush-secret";
  variables["AZURE_FEDERATED_TOKEN_FILE"] = folder.write("token", "hush");
  EXPECT_EQ(find(variables), given);
  EXPECT_EQ(secret, "hush-secret");
}

TEST_F(AzureCredentials, OfAManagedIdentityWhereAnAppsServerOrItsHeaderIsNotNamed) {
  std::vector<std::string> paths;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    paths.push_back(request.path);
    EXPECT_FALSE(request.has_param("client_id"));
    EXPECT_FALSE(request.has_header("X-IDENTITY-HEADER"));
    response.set_content(R"({"access_token": "hush-token", "expires_in": 3600})", "application/json");
  }};
  EXPECT_EQ(
      find({{"IDENTITY_ENDPOINT", server.url() + "/msi/token"}, {"AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url()}}),
      given);
  EXPECT_EQ(find({{"IDENTITY_HEADER", "hush-header"}, {"AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url()}}), given);
  EXPECT_EQ(paths, std::vector<std::string>(2, "/metadata/identity/oauth2/token"));
}

TEST_F(AzureCredentials, OfAnAppThatAreRefusedShowNoHeader) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) {
    response.status = 400;
    response.set_content(R"({"error": "bad", "error_description": "Not with hush-header"})", "application/json");
  }};
  const auto found = find({{"IDENTITY_ENDPOINT", server.url() + "/msi/token"}, {"IDENTITY_HEADER", "hush-header"}});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("asking " + server.url() + " for"), HasSubstr("(Not with ***)"), Not(HasSubstr("hush"))));
}

TEST_F(AzureCredentials, OfAManagedIdentityWhereNobodyIsLoggedInByTheAzTool) {
  LoopbackServer server{[](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.path, "/metadata/identity/oauth2/token");
    EXPECT_EQ(request.get_header_value("Metadata"), "true");
    EXPECT_EQ(request.get_param_value("api-version"), "2018-02-01");
    EXPECT_EQ(request.get_param_value("resource"), "https://storage.azure.com");
    EXPECT_EQ(request.get_param_value("client_id"), "client");
    response.set_content(R"({"access_token": "hush-token", "expires_in": "9", "expires_on": "1767229200"})",
                         "application/json");
  }};
  EXPECT_EQ(find({{"PATH", az_that("echo Please run az login >&2; exit 1")},
                  {"AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url() + "/"},
                  {"AZURE_CLIENT_ID", "client"}}),
            given);
}

TEST_F(AzureCredentials, OfAManagedIdentityOfAnApp) {
  LoopbackServer server{[](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.path, "/msi/token");
    EXPECT_EQ(request.get_header_value("X-IDENTITY-HEADER"), "hush-header");
    EXPECT_EQ(request.get_param_value("api-version"), "2019-08-01");
    response.set_content(R"({"access_token": "hush-token", "expires_on": "1767229200"})", "application/json");
  }};
  EXPECT_EQ(find({{"IDENTITY_ENDPOINT", server.url() + "/msi/token"}, {"IDENTITY_HEADER", "hush-header"}}), given);
}

TEST_F(AzureCredentials, ThatAreRefusedSayWhyAndShowNoSecret) {
  struct Row {
    int status;
    ErrorKind kind;
  };
  for (const Row& row :
       {Row{401, ErrorKind::unauthorized}, Row{429, ErrorKind::throttled}, Row{503, ErrorKind::unavailable}}) {
    LoopbackServer server{[&](const httplib::Request&, httplib::Response& response) {
      response.status = row.status;
      response.set_content(R"({"error": "invalid_client", "error_description": "Not with hush-secret."})",
                           "application/json");
    }};
    Variables variables = client_at(server.url());
    variables["AZURE_CLIENT_SECRET"] = "hush-secret";
    const auto found = find(variables);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, row.kind) << row.status;
    EXPECT_THAT(found.error().message,
                AllOf(HasSubstr(server.url()), HasSubstr("invalid_client (Not with ***)"), Not(HasSubstr("hush"))));
  }
}

// The metadata server answers 404 or 410 while an identity is being set up, and 429 while it throttles.
TEST_F(AzureCredentials, OfAMachineThatIsBeingSetUpMayPass) {
  for (const auto& [status, kind] : {std::pair{404, ErrorKind::unavailable}, std::pair{410, ErrorKind::unavailable},
                                     std::pair{429, ErrorKind::throttled}, std::pair{400, ErrorKind::unauthorized}}) {
    LoopbackServer server{
        [status = status](const httplib::Request&, httplib::Response& response) { response.status = status; }};
    EXPECT_EQ(find({{"AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url()}}).error().kind, kind) << status;
  }
}

TEST_F(AzureCredentials, SayWhatIsMissing) {
  const auto none =
      find({{"AZURE_POD_IDENTITY_AUTHORITY_HOST", fmt::format("http://127.0.0.1:{}", fakes::free_port())}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("no Azure credentials were found"), HasSubstr("AZURE_STORAGE_ACCOUNT_KEY"),
                    HasSubstr("the az tool is not in PATH"), HasSubstr("checkpoint.credentialsSecret")));
  struct Row {
    Variables variables;
    std::string says;
  };
  const Row rows[] = {
      {{{"AZURE_CLIENT_SECRET", "hush"}}, "AZURE_TENANT_ID is not set, though AZURE_CLIENT_SECRET is"},
      {{{"AZURE_CLIENT_SECRET", "hush"}, {"AZURE_TENANT_ID", "t"}}, "AZURE_CLIENT_ID is not set"},
      {{{"AZURE_FEDERATED_TOKEN_FILE", folder.file("none").string()}}, "cannot be read or is empty"},
      {{{"AZURE_FEDERATED_TOKEN_FILE", folder.write("token", "hush").string()}},
       "AZURE_TENANT_ID is not set, though AZURE_FEDERATED_TOKEN_FILE is"},
      {{{"AZURE_CLIENT_SECRET", "hush"},
        {"AZURE_TENANT_ID", "t"},
        {"AZURE_CLIENT_ID", "c"},
        {"AZURE_AUTHORITY_HOST", "http://evil"}},
       "AZURE_AUTHORITY_HOST is refused"},
  };
  for (const Row& row : rows) {
    const auto found = find(row.variables);
    ASSERT_FALSE(found) << row.says;
    EXPECT_EQ(found.error().kind, ErrorKind::unauthorized);
    EXPECT_THAT(found.error().message, AllOf(HasSubstr(row.says), Not(HasSubstr("hush"))));
  }
}

}  // namespace
}  // namespace trainyard::storage

#include "storage/azure_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/storage/environment_table.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;
using testing::Not;
using Variables = std::map<std::string, std::string>;

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
  const std::vector<Row> rows = {
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
      {{{"AZURE_STORAGE_CONNECTION_STRING", "AccountKey=hush"}}, "no storage account is named"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "ftp://hush/acme"}},
       "AZURE_STORAGE_BLOB_ENDPOINT is no address"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "https://host/?sig=hush"}},
       "AZURE_STORAGE_BLOB_ENDPOINT is no address"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "http://127.0.0.1:10000"}},
       "AZURE_STORAGE_BLOB_ENDPOINT does not name the account"},
      {{{"AZURE_STORAGE_ACCOUNT_NAME", "acme"}, {"AZURE_STORAGE_BLOB_ENDPOINT", "https://other.blob.core.windows.net"}},
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

}  // namespace
}  // namespace trainyard::storage

#include "storage/azure_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "common/try.hpp"
#include "storage/server_address.hpp"

namespace trainyard::storage {
namespace {

constexpr const char* connection_string_name = "AZURE_STORAGE_CONNECTION_STRING";
// No secret: every emulator has this account with this key (Azurite's documentation).
constexpr const char* emulator_account = "devstoreaccount1";
constexpr const char* emulator_key =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
constexpr const char* emulator_endpoint = "http://127.0.0.1:10000/devstoreaccount1";

/// The values of the connection string and of the variables, not validated yet.
struct Said {
  std::string account;
  std::string key;
  std::string sas_token;
  std::string endpoint;
  std::string endpoint_name;  // Which variable holds it.
  std::string suffix;         // "core.windows.net"
  std::string scheme;
};

Result<std::map<std::string, std::string>> connection_parts(std::string_view text) {
  std::map<std::string, std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');  // Keys and tokens hold '=' too.
    if (equals == std::string_view::npos || equals == 0)
      return fail(ErrorKind::invalid, fmt::format("{} is no list of NAME=VALUE;...", connection_string_name));
    parts[std::string{part.substr(0, equals)}] = part.substr(equals + 1);
  }
  return parts;
}

Result<Said> what_is_said(const Environment& environment) {
  Said said{.account = first_of(environment, {"AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"}),
            .key = first_of(environment, {"AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"}),
            .sas_token = first_of(environment, {"AZURE_STORAGE_SAS_TOKEN"}),
            .endpoint = first_of(environment, {"AZURE_STORAGE_BLOB_ENDPOINT"}),
            .endpoint_name = "AZURE_STORAGE_BLOB_ENDPOINT",
            .suffix = "core.windows.net",
            .scheme = "https"};
  const std::string connection = first_of(environment, {connection_string_name});
  if (connection.empty()) return said;
  auto parts = TRY(connection_parts(connection));
  if (parts["UseDevelopmentStorage"] == "true") {
    parts = {{"AccountName", emulator_account}, {"AccountKey", emulator_key}, {"BlobEndpoint", emulator_endpoint}};
  }
  // The connection string names the account with its key; a key or a token in another variable could be another
  // account's.
  said.key = parts["AccountKey"];
  said.sas_token = parts["SharedAccessSignature"];
  if (const std::string& account = parts["AccountName"]; !account.empty()) said.account = account;
  if (const std::string& suffix = parts["EndpointSuffix"]; !suffix.empty()) said.suffix = suffix;
  if (const std::string& scheme = parts["DefaultEndpointsProtocol"]; !scheme.empty()) said.scheme = scheme;
  if (const std::string& endpoint = parts["BlobEndpoint"]; !endpoint.empty()) {
    said.endpoint = endpoint;
    said.endpoint_name = fmt::format("BlobEndpoint of {}", connection_string_name);
  }
  return said;
}

// "https://account.blob.suffix" names the account in the host, an emulator's "http://host:port/account" in the path.
Result<void> take_endpoint(AzureSettings& settings, const Said& said) {
  const auto address = TRY(parse_server_address(said.endpoint_name, said.endpoint));
  settings.scheme = address.scheme;
  settings.host = address.authority;
  if (const std::size_t mark = address.authority.find(".blob."); mark != std::string::npos && address.path.empty()) {
    if (settings.account.empty()) settings.account = address.authority.substr(0, mark);
    if (settings.account == address.authority.substr(0, mark)) return {};
  }
  if (settings.account.empty()) settings.account = address.path;
  if (address.path.empty() || address.path != settings.account) {
    return fail(ErrorKind::invalid, fmt::format("{} does not name the account: write https://account.blob.core."
                                                "windows.net or http://host:port/account",
                                                said.endpoint_name));
  }
  settings.has_account_path = true;
  return {};
}

}  // namespace

Result<AzureSettings> azure_settings(const Environment& environment) {
  const auto said = TRY(what_is_said(environment));
  AzureSettings settings{
      .account = said.account, .scheme = said.scheme, .host = {}, .account_key = said.key, .sas_token = {}};
  if (!said.endpoint.empty()) {
    TRY(take_endpoint(settings, said));
  }
  if (settings.account.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("no storage account is named: set AZURE_STORAGE_ACCOUNT_NAME or {}, as in the Secret that "
                            "checkpoint.credentialsSecret names",
                            connection_string_name));
  }
  if (settings.host.empty()) settings.host = fmt::format("{}.blob.{}", settings.account, said.suffix);
  if (settings.account_key.empty() && !said.sas_token.empty()) {
    settings.sas_token = said.sas_token.substr(said.sas_token.starts_with('?') ? 1 : 0);
  }
  return settings;
}

}  // namespace trainyard::storage

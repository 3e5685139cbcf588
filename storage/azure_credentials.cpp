#include "storage/azure_credentials.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/child_program.hpp"
#include "common/try.hpp"
#include "storage/oauth.hpp"
#include "storage/server_error.hpp"
#include "storage/sigv4.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

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

constexpr auto azure_issuer_deadline = 5s;
constexpr auto az_tool_deadline = 30s;  // It is slow to start.
constexpr const char* storage_resource = "https://storage.azure.com";

/// The client of Entra ID that the environment variables name.
struct EntraClient {
  std::string authority;
  std::string tenant;
  std::string client;
};

Result<EntraClient> entra_client(const Environment& environment, std::string_view beside) {
  EntraClient client{.authority = first_of(environment, {"AZURE_AUTHORITY_HOST"}),
                     .tenant = first_of(environment, {"AZURE_TENANT_ID"}),
                     .client = first_of(environment, {"AZURE_CLIENT_ID"})};
  for (const auto& [name, value] :
       {std::pair{"AZURE_TENANT_ID", &client.tenant}, {"AZURE_CLIENT_ID", &client.client}}) {
    if (value->empty()) return fail(ErrorKind::unauthorized, fmt::format("{} is not set, though {} is", name, beside));
  }
  if (client.authority.empty()) client.authority = "https://login.microsoftonline.com";
  while (client.authority.ends_with('/')) client.authority.pop_back();
  if (!keeps_secrets(client.authority))
    return fail(ErrorKind::unauthorized,
                "AZURE_AUTHORITY_HOST is refused: a secret goes there, so it must be https://");
  return client;
}

Result<AccessToken> ask_entra(HttpClient& http, const EntraClient& client,
                              std::vector<std::pair<std::string, std::string>> form, const std::string& secret,
                              Time now) {
  const std::string doing =
      fmt::format("getting a token for the client {} at {}", client.client, origin_of(client.authority));
  form.insert(form.end(), {{"client_id", client.client},
                           {"grant_type", "client_credentials"},
                           {"scope", fmt::format("{}/.default", storage_resource)}});
  const std::string body = canonical_query(form);
  const auto reply = TRY(ask_issuer(
      http, doing,
      {.method = "POST",
       .url = fmt::format("{}/{}/oauth2/v2.0/token", client.authority, percent_encoded(client.tenant, false)),
       .headers = {{"content-type", "application/x-www-form-urlencoded"}},
       .body = {std::as_bytes(std::span{body})},
       .deadline = azure_issuer_deadline}));
  auto token = parse_token_reply(reply, now, {secret});
  if (!token) return fail(doing, token.error());
  return token;
}

Result<AccessToken> by_client_secret(HttpClient& http, const Environment& environment, Time now) {
  const std::string secret = first_of(environment, {"AZURE_CLIENT_SECRET"});
  return entra_client(environment, "AZURE_CLIENT_SECRET").and_then([&](const EntraClient& client) {
    return ask_entra(http, client, {{"client_secret", secret}}, secret, now);
  });
}

Result<AccessToken> by_workload_identity(HttpClient& http, const Environment& environment, Time now) {
  const auto assertion = read_secret_file(first_of(environment, {"AZURE_FEDERATED_TOKEN_FILE"}));
  if (!assertion) return fail("reading AZURE_FEDERATED_TOKEN_FILE", assertion.error());
  return entra_client(environment, "AZURE_FEDERATED_TOKEN_FILE").and_then([&](const EntraClient& client) {
    return ask_entra(http, client,
                     {{"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
                      {"client_assertion", *assertion}},
                     *assertion, now);
  });
}

// Empty when there is no az tool.
std::string az_tool(const Environment& environment) {
  const std::string path = first_of(environment, {"PATH"});
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::filesystem::path program = std::filesystem::path{path.substr(begin, end - begin)} / "az";
    std::error_code error;
    if (program.is_absolute() && std::filesystem::exists(program, error)) return program.string();
    begin = end + 1;
  }
  return {};
}

/// not_found when there is no az tool, or nobody is logged in.
Result<AccessToken> by_az_tool(const Environment& environment, Time now) {
  const std::string program = az_tool(environment);
  if (program.empty()) return fail(ErrorKind::not_found, "the az tool is not in PATH");
  const auto end = run_program(
      {program, "account", "get-access-token", "--resource", storage_resource, "--output", "json"}, az_tool_deadline);
  if (!end) return fail("asking the az tool", end.error());
  if (end->exit_code != 0)
    return fail(ErrorKind::not_found,
                fmt::format("the az tool gives no token: {}", sanitize_server_text(end->words, {})));
  // The az tool names its fields unlike the issuers, and its `expiresOn` is local time.
  json object = json::parse(end->output, nullptr, false);
  if (object.is_object() && object.contains("accessToken")) object["access_token"] = object["accessToken"];
  auto token = parse_token_reply({.status = 200, .headers = {}, .body = object.dump()}, now, {});
  if (!token) return fail("asking the az tool", token.error());
  return token;
}

Result<AccessToken> by_managed_identity(HttpClient& http, const Environment& environment, const std::string& lacking,
                                        Time now) {
  std::string url = first_of(environment, {"IDENTITY_ENDPOINT"});
  const std::string secret = first_of(environment, {"IDENTITY_HEADER"});
  std::vector<std::pair<std::string, std::string>> query = {{"resource", storage_resource}};
  std::map<std::string, std::string> headers;
  if (!url.empty() && !secret.empty()) {  // App Service and Container Apps.
    query.emplace_back("api-version", "2019-08-01");
    headers["x-identity-header"] = secret;
  } else {
    url = first_of(environment, {"AZURE_POD_IDENTITY_AUTHORITY_HOST"});
    if (url.empty()) url = "http://169.254.169.254";
    while (url.ends_with('/')) url.pop_back();
    url += "/metadata/identity/oauth2/token";
    query.emplace_back("api-version", "2018-02-01");
    headers["metadata"] = "true";
  }
  const std::string client = first_of(environment, {"AZURE_CLIENT_ID"});
  if (!client.empty()) query.emplace_back("client_id", client);
  const std::string doing = fmt::format("asking {} for a managed identity's token", origin_of(url));
  const auto reply = ask_issuer(http, doing,
                                {.method = "GET",
                                 .url = fmt::format("{}?{}", url, canonical_query(query)),
                                 .headers = headers,
                                 .deadline = azure_issuer_deadline,
                                 .is_direct = true});
  if (!reply) {
    Error error = reply.error();
    error.message = fmt::format(
        "no Azure credentials were found: neither AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN nor "
        "AZURE_STORAGE_CONNECTION_STRING is set, nor AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE; {}; and {}. "
        "Name a Secret with one of them in checkpoint.credentialsSecret, or give the pod an identity of Azure's",
        lacking, error.message);
    return tl::unexpected(error);
  }
  auto token = parse_token_reply(*reply, now, {secret});
  // The server answers so while an identity is being set up.
  const bool may_pass = !token && reply->status == 404;
  if (may_pass) return fail(ErrorKind::unavailable, fmt::format("{}: {}", doing, token.error().message));
  if (!token) return fail(doing, token.error());
  return token;
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
  if (settings.account_key.empty()) settings.sas_token = said.sas_token.substr(said.sas_token.starts_with('?') ? 1 : 0);
  return settings;
}

Result<AccessToken> fetch_azure_token(HttpClient& http, const Environment& environment, Time now) {
  if (!first_of(environment, {"AZURE_CLIENT_SECRET"}).empty()) return by_client_secret(http, environment, now);
  if (!first_of(environment, {"AZURE_FEDERATED_TOKEN_FILE"}).empty())
    return by_workload_identity(http, environment, now);
  auto token = by_az_tool(environment, now);
  if (token || token.error().kind != ErrorKind::not_found) return token;
  return by_managed_identity(http, environment, token.error().message, now);
}

}  // namespace trainyard::storage

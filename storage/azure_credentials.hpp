#pragma once

#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/credentials.hpp"
#include "storage/environment.hpp"
#include "storage/http_client.hpp"

namespace trainyard::storage {

struct AzureSettings {
  std::string account;
  std::string scheme = "https";
  std::string host;               ///< "account.blob.core.windows.net", or an emulator's "127.0.0.1:10000".
  bool has_account_path = false;  ///< True when paths begin with the account's name, as emulators want it.
  /// At most one of account_key and sas_token is set. The connection string's, else the key, else the token. Without
  /// both, an identity of Azure is used.
  std::string account_key;  ///< Base64.
  std::string sas_token;    ///< Without a '?' in front.
  bool operator==(const AzureSettings&) const = default;

  /// "https://account.blob.core.windows.net"
  [[nodiscard]] std::string endpoint() const { return scheme + "://" + host; }
};

/// The settings from AZURE_STORAGE_CONNECTION_STRING, whose parts win, and from the variables that Azure's tools and
/// adlfs read: AZURE_STORAGE_ACCOUNT_NAME (or AZURE_STORAGE_ACCOUNT), AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_KEY),
/// AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_BLOB_ENDPOINT. ErrorKind::invalid names the variable that is missing or
/// wrong, and never its value. Pure.
[[nodiscard]] Result<AzureSettings> azure_settings(const Environment& environment);

/// A token of Microsoft Entra ID for Azure Storage. Needed only where azure_settings() finds neither an account's key
/// nor a SAS token. Takes the first identity that is set up: a client's secret, workload identity, the az tool's login,
/// a managed identity (docs/storage.md, "gs:// and az://"). Each call reads the files again.
///
/// Errors: a transient one when the server is slow, throttles or cannot be reached; otherwise unauthorized, which names
/// the missing variable or says what was refused.
/// Source: https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
[[nodiscard]] Result<AccessToken> fetch_azure_token(HttpClient& http, const Environment& environment, Time now);

}  // namespace trainyard::storage

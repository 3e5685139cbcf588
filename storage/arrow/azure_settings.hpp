#pragma once

#include <string>

#include "common/result.hpp"
#include "storage/environment.hpp"

namespace trainyard::storage {

struct AzureSettings {
  std::string account;
  std::string scheme = "https";
  /// Both as Arrow takes them: what begins with '.' follows the account's name; else the account is the path's first
  /// part.
  std::string blob_authority = ".blob.core.windows.net";
  std::string dfs_authority = ".dfs.core.windows.net";
  /// At most one of these two; without either, Azure's own chain says who we are.
  std::string account_key;
  std::string sas_token;
  bool operator==(const AzureSettings&) const = default;

  /// "https://account.blob.core.windows.net/"
  [[nodiscard]] std::string url() const;
};

/// From AZURE_STORAGE_CONNECTION_STRING, whose parts win, and from the variables that Azure's tools and adlfs read:
/// AZURE_STORAGE_ACCOUNT_NAME (or AZURE_STORAGE_ACCOUNT), AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_KEY),
/// AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_BLOB_ENDPOINT. ErrorKind::invalid names the one that is missing or wrong, and
/// never what stands in it. Pure.
[[nodiscard]] Result<AzureSettings> azure_settings(const Environment& environment);

}  // namespace trainyard::storage

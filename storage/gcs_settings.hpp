#pragma once

#include <memory>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/credentials.hpp"
#include "storage/environment.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

/// Where a GcsStore is, and with which credentials it is used.
struct GcsSettings {
  std::string bucket;
  std::string prefix;                    ///< Without '/' at either end; may be empty.
  std::string endpoint;                  ///< "https://storage.googleapis.com"
  std::shared_ptr<AccessTokens> tokens;  ///< nullptr: requests carry none.
  std::string ca_bundle;                 ///< A file; empty: the system's.
  std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>();
};

/// The settings for `uri`. STORAGE_EMULATOR_HOST or CLOUD_STORAGE_EMULATOR_ENDPOINT names another server than Google's.
/// Requests carry no credentials to such a server, nor with CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true. Otherwise the
/// credentials are those of find_google_identity(), which is called at the first request and again for each token.
/// ErrorKind::invalid names the variable that is wrong.
[[nodiscard]] Result<GcsSettings> make_gcs_settings(const Uri& uri, const Environment& environment);

}  // namespace trainyard::storage

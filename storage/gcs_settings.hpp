#pragma once

#include <memory>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/access_token.hpp"
#include "storage/environment.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

/// All that a GcsStore must know of its place and its user.
struct GcsSettings {
  std::string bucket;
  std::string prefix;                    ///< Without '/' at either end; may be empty.
  std::string endpoint;                  ///< "https://storage.googleapis.com"
  std::shared_ptr<AccessTokens> tokens;  ///< nullptr: requests carry none.
  std::string ca_bundle;                 ///< A file; empty: the system's.
  std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>();
};

/// Completes what `uri` says. STORAGE_EMULATOR_HOST, or CLOUD_STORAGE_EMULATOR_ENDPOINT, names a server instead of
/// Google's, which is then asked without credentials, as is Google's with CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true. Else
/// the credentials are those of find_google_identity(), looked for at the first request and read anew for each token.
/// ErrorKind::invalid names the variable that is wrong.
[[nodiscard]] Result<GcsSettings> make_gcs_settings(const Uri& uri, const Environment& environment);

}  // namespace trainyard::storage

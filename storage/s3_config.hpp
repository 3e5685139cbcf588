#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/sigv4.hpp"
#include "storage/store.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

/// All that an S3 store must know of its place and its user.
struct S3Config {
  std::string bucket;
  std::string prefix;  ///< Without '/' at either end; may be empty.
  std::string region;
  std::string scheme;  ///< "http" or "https"
  std::string host;  ///< As in the Host header: with the bucket in front, unless path style; with the port, unless the
                     ///< scheme's own.
  bool path_style = false;
  Credentials credentials;
  std::string ca_bundle;  ///< A file; empty: the system's.

  [[nodiscard]] std::string endpoint() const { return scheme + "://" + host; }
};

/// The value of an environment variable; nothing when it is unset.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// This process's.
[[nodiscard]] Environment process_environment();

/// Completes what `uri` and `options` say from the variables that the AWS SDKs read: AWS_ACCESS_KEY_ID,
/// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
/// AWS_CA_BUNDLE. ErrorKind::unauthorized without credentials, invalid for an endpoint that is no URL.
[[nodiscard]] Result<S3Config> make_s3_config(const Uri& uri, const S3Options& options, const Environment& environment);

}  // namespace trainyard::storage

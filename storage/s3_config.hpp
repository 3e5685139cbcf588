#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/credential_chain.hpp"
#include "storage/environment.hpp"
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
  std::shared_ptr<CredentialChain> credentials;
  std::string ca_bundle;                               ///< A file; empty: the system's.
  std::map<std::string, std::string> encryption = {};  ///< Headers of every request that begins an object.
  std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>();

  [[nodiscard]] std::string endpoint() const { return scheme + "://" + host; }
};

/// Completes what `uri` and `options` say from what the AWS SDKs read: AWS_REGION, AWS_DEFAULT_REGION,
/// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_CA_BUNDLE, and the profile's region and endpoint_url. Credentials are
/// those of credential_sources(), and not looked for yet. ErrorKind::invalid for an endpoint that is no URL, or
/// an encryption that is none.
[[nodiscard]] Result<S3Config> make_s3_config(const Uri& uri, const S3Options& options, const Environment& environment);

}  // namespace trainyard::storage

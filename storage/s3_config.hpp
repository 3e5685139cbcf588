#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/aws_credential_chain.hpp"
#include "storage/environment.hpp"
#include "storage/store.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

/// When requests carry checksums (CRC-32C), which some servers do not know.
enum class S3Checksums {
  automatic,  ///< Until a request that was refused with checksums succeeds without them.
  required,
  off,
};

/// Where an S3Store is, and with which credentials it is used.
struct S3Config {
  std::string bucket;
  std::string prefix;  ///< Without '/' at either end; may be empty.
  std::string region;
  std::string scheme;  ///< "http" or "https"
  std::string host;  ///< As in the Host header: with the bucket in front, unless path style; with the port, unless the
                     ///< scheme's own.
  bool path_style = false;
  std::shared_ptr<AwsCredentialChain> credentials;
  std::string ca_bundle;                               ///< A file; empty: the system's.
  std::map<std::string, std::string> encryption = {};  ///< Headers of every request that begins an object.
  S3Checksums checksums = S3Checksums::automatic;
  std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>();

  [[nodiscard]] std::string endpoint() const { return scheme + "://" + host; }
};

/// The configuration from `uri`, `options` and the variables that the AWS SDKs read: AWS_REGION, AWS_DEFAULT_REGION,
/// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_CA_BUNDLE, AWS_REQUEST_CHECKSUM_CALCULATION (when_supported: required,
/// when_required: off), and the profile's region, endpoint_url and request_checksum_calculation. The credentials are
/// those of aws_credential_sources(), which are not asked yet. ErrorKind::invalid for a wrong endpoint, encryption or
/// checksum setting.
[[nodiscard]] Result<S3Config> make_s3_config(const Uri& uri, const S3Options& options, const Environment& environment);

}  // namespace trainyard::storage

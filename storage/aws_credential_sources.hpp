#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "storage/aws_credential_chain.hpp"
#include "storage/aws_profile.hpp"
#include "storage/environment.hpp"

namespace trainyard::storage {

/// Time limits for the servers that give credentials.
struct AwsCredentialTuning {
  std::chrono::milliseconds deadline{5'000};  ///< Limit of one request: a thousand ranks may ask at once.
  std::chrono::milliseconds patience{5'000};  ///< How long a failed request is retried.
  /// Limit for connecting to the instance's metadata. A machine that has none loses this time.
  std::chrono::milliseconds metadata_connect_timeout{2'000};
};

/// The places where the AWS SDKs look for credentials, in the SDKs' order: the environment's key, its web identity, the
/// profile, the container agent (ECS, EKS pod identity), the instance's metadata. Asks no server yet. `region` selects
/// the STS server. Each get() reads the files again.
[[nodiscard]] std::vector<AwsCredentialSource> aws_credential_sources(const Environment& environment,
                                                                      const std::string& region,
                                                                      const AwsCredentialTuning& tuning = {});

/// The URL of the container agent. not_found when no variable names one; invalid when it would send the token over a
/// network without TLS: http:// is allowed for loopback addresses and the agents' own addresses only. Pure.
[[nodiscard]] Result<std::string> container_url(const Environment& environment);

/// The URL of the instance's metadata, without a slash at the end; not_found when AWS_EC2_METADATA_DISABLED is true.
/// Pure.
[[nodiscard]] Result<std::string> metadata_url(const Environment& environment);

/// "https://sts.eu-west-1.amazonaws.com", unless AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL says another. Pure.
[[nodiscard]] std::string sts_url(const Environment& environment, const std::string& region);

}  // namespace trainyard::storage

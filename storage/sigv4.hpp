#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.hpp"

/// AWS Signature Version 4. Pure but for the cryptography.
/// Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
namespace trainyard::storage {

struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;        ///< Empty: none.
  std::optional<Time> expiry = {};  ///< When the server stops accepting them, where that is known.
  bool operator==(const Credentials&) const = default;
};

/// True for credentials that sign alike.
[[nodiscard]] inline bool is_same_secret(const Credentials& one, const Credentials& other) {
  return one.access_key_id == other.access_key_id && one.secret_access_key == other.secret_access_key &&
         one.session_token == other.session_token;
}

/// The region and service for which a signature is valid.
struct SigningScope {
  std::string region;
  std::string service;
};

/// The parts of a request that are signed.
struct SignedParts {
  std::string method;
  std::string path;                                        ///< Percent-encoded as it is sent: "/bucket/a%20b".
  std::vector<std::pair<std::string, std::string>> query;  ///< Not encoded.
  std::map<std::string, std::string> headers;              ///< Names in lower case; must hold host and x-amz-date.
  std::string payload_hash;                                ///< SHA-256 in hexadecimal, or unsigned_payload.
};

inline constexpr std::string_view unsigned_payload = "UNSIGNED-PAYLOAD";

/// Percent-encodes all but letters, digits and "-._~"; '/' too, unless it `keeps_slash`.
[[nodiscard]] std::string percent_encoded(std::string_view text, bool keeps_slash);

/// "a=1&b=%20": encoded and sorted, as it is signed and sent.
[[nodiscard]] std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query);

[[nodiscard]] std::string canonical_request(const SignedParts& request);

/// "20150830T123600Z"
[[nodiscard]] std::string amz_date(Time time);

/// The value of the Authorization header. `date`: amz_date(), equal to the header x-amz-date.
[[nodiscard]] std::string authorization(const SignedParts& request, const Credentials& credentials,
                                        const SigningScope& scope, std::string_view date);

/// SHA-256 in hexadecimal.
[[nodiscard]] std::string sha256_text(std::string_view bytes);

}  // namespace trainyard::storage

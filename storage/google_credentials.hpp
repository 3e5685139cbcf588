#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/credentials.hpp"
#include "storage/environment.hpp"
#include "storage/http_client.hpp"

/// Credentials for Google's services. Source:
/// https://cloud.google.com/docs/authentication/application-default-credentials and https://google.aip.dev/auth.

namespace trainyard::storage {

/// A service account's key (file type `service_account`).
struct ServiceAccountKey {
  std::string client_email;
  std::string private_key_id;
  std::string private_key;  ///< PEM.
  std::string token_uri;
  bool operator==(const ServiceAccountKey&) const = default;
};

/// A person's login by gcloud (file type `authorized_user`).
struct GoogleLogin {
  std::string client_id;
  std::string client_secret;
  std::string refresh_token;
  std::string token_uri;
  bool operator==(const GoogleLogin&) const = default;
};

/// Another issuer's token that Google exchanges for its own: workload identity federation (file type
/// `external_account`).
struct GoogleFederation {
  std::string audience;
  std::string subject_token_type;
  std::string token_url;
  std::string impersonation_url;               ///< Gives the token of a service account; empty: none.
  std::string file;                            ///< Holds the other issuer's token. Empty: `url` gives it.
  std::string url;                             ///< Gives the other issuer's token.
  std::map<std::string, std::string> headers;  ///< Headers of the request to `url`.
  std::string token_field;  ///< The JSON member that holds the token; empty: the whole text is the token.
  bool operator==(const GoogleFederation&) const = default;
};

/// The metadata server of Google's machines and of GKE.
struct GoogleMetadata {
  std::string url;   ///< "http://metadata.google.internal"
  std::string file;  ///< gcloud's file, which does not exist; for messages.
  bool operator==(const GoogleMetadata&) const = default;
};

using GoogleIdentity = std::variant<ServiceAccountKey, GoogleLogin, GoogleFederation, GoogleMetadata>;

/// The identity that a credentials file's text holds. ErrorKind::unauthorized names the member that is missing, and
/// never a value. Pure.
[[nodiscard]] Result<GoogleIdentity> parse_google_credentials(std::string_view text);

/// The identity in the file GOOGLE_APPLICATION_CREDENTIALS; otherwise in gcloud's file, if it exists; otherwise the
/// metadata server. Reads files and asks no server. unauthorized names the file that is wrong.
[[nodiscard]] Result<GoogleIdentity> find_google_identity(const Environment& environment);

/// A token for `identity` that may read and write objects. Errors are those that AccessTokens::get() needs:
/// a transient one when the server is slow, throttles or cannot be reached; unauthorized for a refusal.
[[nodiscard]] Result<AccessToken> fetch_google_token(HttpClient& http, const GoogleIdentity& identity, Time now);

/// A JSON Web Token that is signed by an RSA key (RS256): "header.claims.signature". `header` and `claims` are JSON;
/// `private_key` is PEM, PKCS #8 or PKCS #1. unauthorized when `private_key` is no RSA key; the message never holds it.
/// Pure but for the cryptography. Source: RFC 7515 and RFC 7518, 3.3.
[[nodiscard]] Result<std::string> signed_jwt(std::string_view header, std::string_view claims,
                                             std::string_view private_key);

/// Base64 for URLs, without padding (RFC 4648, 5).
[[nodiscard]] std::string encode_base64url(std::string_view bytes);

}  // namespace trainyard::storage

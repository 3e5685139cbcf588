#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/access_token.hpp"
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
  std::string impersonation_url;               ///< Takes on a service account; empty: none.
  std::string file;                            ///< Where the other issuer's token is; or
  std::string url;                             ///< where it is asked for, with
  std::map<std::string, std::string> headers;  ///< these.
  std::string token_field;                     ///< The member that holds it in JSON; empty: the text is the token.
  bool operator==(const GoogleFederation&) const = default;
};

/// The metadata server of Google's machines and of GKE.
struct GoogleMetadata {
  std::string url;   ///< "http://metadata.google.internal"
  std::string file;  ///< gcloud's file, which was looked for first and is not there.
  bool operator==(const GoogleMetadata&) const = default;
};

using GoogleIdentity = std::variant<ServiceAccountKey, GoogleLogin, GoogleFederation, GoogleMetadata>;

/// The identity that a credentials file's text holds. ErrorKind::unauthorized names the member that is missing, and
/// never a value. Pure.
[[nodiscard]] Result<GoogleIdentity> parse_google_credentials(std::string_view text);

/// The file GOOGLE_APPLICATION_CREDENTIALS; else gcloud's file, if it is there; else the metadata server. Reads files
/// and asks no server. unauthorized names the file that is wrong.
[[nodiscard]] Result<GoogleIdentity> find_google_identity(const Environment& environment);

/// A token for `identity` that may read and write objects. Errors as AccessTokens::get() wants them: transient ones of
/// a server that is slow, throttles or cannot be reached; unauthorized for a refusal.
[[nodiscard]] Result<AccessToken> fetch_google_token(HttpClient& http, const GoogleIdentity& identity, Time now);

}  // namespace trainyard::storage

#include "storage/gcs_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/google_credentials.hpp"
#include "storage/http_client.hpp"
#include "storage/oauth.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {
namespace {

constexpr std::chrono::seconds google_issuer_patience{5};

bool is_anonymous(const Environment& environment) {
  const std::string said = to_lower(first_of(environment, {"CLOUDSDK_AUTH_DISABLE_CREDENTIALS"}));
  return said == "true" || said == "1" || said == "yes";
}

}  // namespace

Result<GcsSettings> make_gcs_settings(const Uri& uri, const Environment& environment) {
  GcsSettings settings{.bucket = uri.bucket,
                       .prefix = uri.path,
                       .endpoint = "https://storage.googleapis.com",
                       .tokens = nullptr,
                       .ca_bundle = first_of(environment, {"SSL_CERT_FILE", "AWS_CA_BUNDLE"})};
  for (const char* name : {"STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"}) {
    const std::string text = first_of(environment, {name});
    if (text.empty()) continue;
    const auto address = TRY(parse_server_address(name, text));
    settings.endpoint = fmt::format("{}://{}", address.scheme, address.authority);
    return settings;
  }
  if (is_anonymous(environment)) return settings;
  const auto http = std::make_shared<HttpClient>(issuer_tuning(google_issuer_patience, environment));
  settings.tokens = std::make_shared<AccessTokens>([environment, http, clock = settings.clock] {
    return find_google_identity(environment).and_then([&](const GoogleIdentity& identity) {
      return fetch_google_token(*http, identity, clock->now());
    });
  });
  return settings;
}

}  // namespace trainyard::storage

#include "storage/google_credentials.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "common/text.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"
#include "storage/oauth.hpp"
#include "storage/sigv4.hpp"

namespace trainyard::storage {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto google_deadline = 5s;
constexpr auto assertion_lifetime = 1h;  // The longest that Google takes.
constexpr std::string_view google_scope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr std::string_view platform_scope = "https://www.googleapis.com/auth/cloud-platform";
constexpr const char* default_token_uri = "https://oauth2.googleapis.com/token";
constexpr const char* credentials_variable = "GOOGLE_APPLICATION_CREDENTIALS";

std::string text_member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

tl::unexpected<Error> missing_member(std::string_view type, std::string_view name) {
  return fail(ErrorKind::unauthorized,
              fmt::format("credentials of the type {} need the member {}, which is missing", type, name));
}

tl::unexpected<Error> unsafe_address(std::string_view name) {
  return fail(ErrorKind::unauthorized, fmt::format("{} is refused: a secret goes there, so it must be https://", name));
}

Result<GoogleIdentity> parse_service_account(const json& object) {
  ServiceAccountKey key{.client_email = text_member(object, "client_email"),
                        .private_key_id = text_member(object, "private_key_id"),
                        .private_key = text_member(object, "private_key"),
                        .token_uri = text_member(object, "token_uri")};
  if (key.client_email.empty()) return missing_member("service_account", "client_email");
  if (key.private_key.empty()) return missing_member("service_account", "private_key");
  if (key.token_uri.empty()) key.token_uri = default_token_uri;
  if (!keeps_secrets(key.token_uri)) return unsafe_address("token_uri");
  return key;
}

Result<GoogleIdentity> parse_login(const json& object) {
  GoogleLogin login{.client_id = text_member(object, "client_id"),
                    .client_secret = text_member(object, "client_secret"),
                    .refresh_token = text_member(object, "refresh_token"),
                    .token_uri = text_member(object, "token_uri")};
  if (login.client_id.empty()) return missing_member("authorized_user", "client_id");
  if (login.client_secret.empty()) return missing_member("authorized_user", "client_secret");
  if (login.refresh_token.empty()) return missing_member("authorized_user", "refresh_token");
  if (login.token_uri.empty()) login.token_uri = default_token_uri;
  if (!keeps_secrets(login.token_uri)) return unsafe_address("token_uri");
  return login;
}

Result<GoogleIdentity> parse_federation(const json& object) {
  constexpr std::string_view type = "external_account";
  GoogleFederation federation{.audience = text_member(object, "audience"),
                              .subject_token_type = text_member(object, "subject_token_type"),
                              .token_url = text_member(object, "token_url"),
                              .impersonation_url = text_member(object, "service_account_impersonation_url"),
                              .file = {},
                              .url = {},
                              .headers = {},
                              .token_field = {}};
  if (federation.audience.empty()) return missing_member(type, "audience");
  if (federation.subject_token_type.empty()) return missing_member(type, "subject_token_type");
  if (federation.token_url.empty()) return missing_member(type, "token_url");
  if (!keeps_secrets(federation.token_url)) return unsafe_address("token_url");
  if (!federation.impersonation_url.empty() && !keeps_secrets(federation.impersonation_url))
    return unsafe_address("service_account_impersonation_url");
  const auto source = object.find("credential_source");
  if (source == object.end() || !source->is_object()) return missing_member(type, "credential_source");
  federation.file = text_member(*source, "file");
  federation.url = text_member(*source, "url");
  // AWS's own way names an environment_id beside a url.
  if (source->contains("environment_id") || source->contains("executable") || source->contains("certificate") ||
      federation.file.empty() == federation.url.empty()) {
    return fail(ErrorKind::unauthorized,
                "credential_source is of a kind that is not known here: name a file or a url, one of the two");
  }
  if (const auto headers = source->find("headers"); headers != source->end() && headers->is_object()) {
    for (const auto& [name, value] : headers->items()) {
      if (value.is_string()) federation.headers[name] = value.get<std::string>();
    }
  }
  if (const auto format = source->find("format"); format != source->end() && format->is_object()) {
    if (text_member(*format, "type") == "json") {
      federation.token_field = text_member(*format, "subject_token_field_name");
      if (federation.token_field.empty()) return missing_member(type, "subject_token_field_name");
    }
  }
  return federation;
}

HttpRequest form_request(const std::string& url, const std::string& form) {
  return {.method = "POST",
          .url = url,
          .headers = {{"content-type", "application/x-www-form-urlencoded"}},
          .body = {std::as_bytes(std::span{form})},
          .deadline = google_deadline};
}

Result<AccessToken> fetch(HttpClient& http, const ServiceAccountKey& key, Time now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  json header = {{"alg", "RS256"}, {"typ", "JWT"}};
  if (!key.private_key_id.empty()) header["kid"] = key.private_key_id;
  const json claims = {{"iss", key.client_email},
                       {"scope", google_scope},
                       {"aud", key.token_uri},
                       {"iat", seconds},
                       {"exp", seconds + std::chrono::seconds{assertion_lifetime}.count()}};
  const std::string doing = fmt::format("getting a token for {} at {}", key.client_email, origin_of(key.token_uri));
  const auto jwt = signed_jwt(header.dump(), claims.dump(), key.private_key);
  if (!jwt) return fail(doing, jwt.error());
  const std::string form =
      canonical_query({{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"}, {"assertion", *jwt}});
  const auto reply = TRY(ask_issuer(http, doing, form_request(key.token_uri, form)));
  auto token = parse_token_reply(reply, now, {*jwt});
  if (!token) return fail(doing, token.error());
  return token;
}

Result<AccessToken> fetch(HttpClient& http, const GoogleLogin& login, Time now) {
  const std::string doing = fmt::format("getting a token for the login of gcloud at {}", origin_of(login.token_uri));
  const std::string form = canonical_query({{"grant_type", "refresh_token"},
                                            {"client_id", login.client_id},
                                            {"client_secret", login.client_secret},
                                            {"refresh_token", login.refresh_token}});
  const auto reply = TRY(ask_issuer(http, doing, form_request(login.token_uri, form)));
  auto token = parse_token_reply(reply, now, {login.client_secret, login.refresh_token});
  if (!token) return fail(doing, token.error());
  return token;
}

Result<std::string> subject_token(HttpClient& http, const GoogleFederation& federation) {
  std::string text;
  std::string place = federation.file;
  if (!federation.file.empty()) {
    text = TRY(read_secret_file(federation.file));
  } else {
    place = origin_of(federation.url);
    const std::string doing = fmt::format("asking {} for a token to exchange", place);
    const auto reply = TRY(ask_issuer(http, doing,
                                      {.method = "GET",
                                       .url = federation.url,
                                       .headers = federation.headers,
                                       .deadline = google_deadline,
                                       .is_direct = federation.url.starts_with("http://")}));
    if (reply.status / 100 != 2) return fail(doing, issuer_error(reply, {}));
    text = reply.body;
  }
  if (federation.token_field.empty()) return text;
  const json object = json::parse(text, nullptr, false);
  std::string token = text_member(object, federation.token_field.c_str());
  if (token.empty())
    return fail(ErrorKind::unauthorized, fmt::format("what {} holds has no member {}", place, federation.token_field));
  return token;
}

Result<AccessToken> impersonate(HttpClient& http, const GoogleFederation& federation, const std::string& bearer) {
  const std::string doing = fmt::format("taking on a service account at {}", origin_of(federation.impersonation_url));
  const std::string body = json{{"scope", json::array({google_scope})},
                                {"lifetime", fmt::format("{}s", std::chrono::seconds{assertion_lifetime}.count())}}
                               .dump();
  const auto reply = TRY(ask_issuer(
      http, doing,
      {.method = "POST",
       .url = federation.impersonation_url,
       .headers = {{"content-type", "application/json"}, {"authorization", fmt::format("Bearer {}", bearer)}},
       .body = {std::as_bytes(std::span{body})},
       .deadline = google_deadline}));
  if (reply.status / 100 != 2) return fail(doing, issuer_error(reply, {bearer}));
  const json object = json::parse(reply.body, nullptr, false);
  const std::string text = text_member(object, "accessToken");
  const auto expiry = parse_rfc3339(text_member(object, "expireTime"));
  if (text.empty() || !expiry) return fail(ErrorKind::invalid, doing + ": the reply holds no access token");
  return AccessToken{.text = text, .expiry = *expiry};
}

Result<AccessToken> fetch(HttpClient& http, const GoogleFederation& federation, Time now) {
  const std::string doing = fmt::format("exchanging a token at {}", origin_of(federation.token_url));
  const auto subject = subject_token(http, federation);
  if (!subject) return fail(doing, subject.error());
  const std::string form =
      canonical_query({{"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"},
                       {"audience", federation.audience},
                       {"scope", std::string{federation.impersonation_url.empty() ? google_scope : platform_scope}},
                       {"requested_token_type", "urn:ietf:params:oauth:token-type:access_token"},
                       {"subject_token_type", federation.subject_token_type},
                       {"subject_token", *subject}});
  const auto reply = TRY(ask_issuer(http, doing, form_request(federation.token_url, form)));
  auto token = parse_token_reply(reply, now, {*subject});
  if (!token) return fail(doing, token.error());
  return federation.impersonation_url.empty() ? token : impersonate(http, federation, token->text);
}

Result<AccessToken> fetch(HttpClient& http, const GoogleMetadata& metadata, Time now) {
  const std::string doing = fmt::format("asking the metadata server {}", metadata.url);
  const auto reply = ask_issuer(http, doing,
                                {.method = "GET",
                                 .url = metadata.url + "/computeMetadata/v1/instance/service-accounts/default/token",
                                 .headers = {{"metadata-flavor", "Google"}},
                                 .deadline = google_deadline,
                                 .is_direct = true});
  if (!reply) {
    Error error = reply.error();
    error.message = fmt::format(
        "no Google credentials were found: {} is not set, {} is not there, and {}. Name a Secret with the key "
        "credentials.json in checkpoint.credentialsSecret, or give the pod a service account of Google's",
        credentials_variable, metadata.file, error.message);
    return tl::unexpected(error);
  }
  auto token = parse_token_reply(*reply, now, {});
  if (!token) return fail(doing, token.error());
  return token;
}

// Given to OpenSSL, which would otherwise ask for the key's passphrase at the terminal.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

tl::unexpected<Error> no_key() {
  ERR_clear_error();
  return fail(ErrorKind::unauthorized, "the private key is not an RSA key in PEM");
}

}  // namespace

Result<GoogleIdentity> parse_google_credentials(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return fail(ErrorKind::unauthorized, "it holds no JSON object");
  const std::string type = text_member(object, "type");
  if (type == "service_account") return parse_service_account(object);
  if (type == "authorized_user") return parse_login(object);
  if (type == "external_account") return parse_federation(object);
  return fail(ErrorKind::unauthorized,
              "its type is not known here: it must be service_account, authorized_user or external_account");
}

Result<GoogleIdentity> find_google_identity(const Environment& environment) {
  const std::string named = first_of(environment, {credentials_variable});
  std::string file = named;
  if (file.empty()) {
    std::string folder = first_of(environment, {"CLOUDSDK_CONFIG"});
    if (folder.empty()) folder = fmt::format("{}/.config/gcloud", first_of(environment, {"HOME"}));
    file = fmt::format("{}/application_default_credentials.json", folder);
  }
  std::error_code error;
  if (named.empty() && !std::filesystem::exists(file, error)) {
    std::string host = first_of(environment, {"GCE_METADATA_HOST", "GCE_METADATA_ROOT"});
    if (host.empty()) host = "metadata.google.internal";
    return GoogleMetadata{.url = fmt::format("http://{}", host), .file = file};
  }
  const std::string doing = named.empty() ? fmt::format("reading gcloud's credentials in {}", file)
                                          : fmt::format("reading {}, which {} names", file, credentials_variable);
  auto identity =
      read_secret_file(file).and_then([](const std::string& text) { return parse_google_credentials(text); });
  if (!identity) return fail(doing, identity.error());
  return identity;
}

Result<AccessToken> fetch_google_token(HttpClient& http, const GoogleIdentity& identity, Time now) {
  return std::visit([&](const auto& known) { return fetch(http, known, now); }, identity);
}

std::string encode_base64url(std::string_view bytes) {
  std::string text = encode_base64(bytes);
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  text.erase(text.find_last_not_of('=') + 1);
  return text;
}

Result<std::string> signed_jwt(std::string_view header, std::string_view claims, std::string_view private_key) {
  const Bio bio{BIO_new_mem_buf(private_key.data(), static_cast<int>(private_key.size())), &BIO_free};
  if (!bio) return no_key();
  const PrivateKey key{PEM_read_bio_PrivateKey(bio.get(), nullptr, &no_passphrase, nullptr), &EVP_PKEY_free};
  if (!key || EVP_PKEY_is_a(key.get(), "RSA") != 1) return no_key();
  std::string text = fmt::format("{}.{}", encode_base64url(header), encode_base64url(claims));
  const DigestContext context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t length = 0;
  if (!context || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &length, bytes, text.size()) != 1) {
    return no_key();
  }
  std::string signature(length, '\0');
  auto* into = reinterpret_cast<unsigned char*>(signature.data());
  if (EVP_DigestSign(context.get(), into, &length, bytes, text.size()) != 1) return no_key();
  signature.resize(length);
  return fmt::format("{}.{}", text, encode_base64url(signature));
}

}  // namespace trainyard::storage

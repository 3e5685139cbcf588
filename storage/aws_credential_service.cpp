#include "storage/aws_credential_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "common/time_text.hpp"
#include "storage/server_error.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

using nlohmann::json;

struct Refusal {
  std::string code;
  std::string words;
};

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

Refusal words_of(const HttpReply& reply) {
  Refusal said{.code = xml::text_of(reply.body, "Code"), .words = xml::text_of(reply.body, "Message")};
  const json object = json::parse(reply.body, nullptr, false);
  for (const char* name : {"code", "Code"}) {
    if (said.code.empty()) said.code = text_in(object, name);
  }
  for (const char* name : {"message", "Message"}) {
    if (said.words.empty()) said.words = text_in(object, name);
  }
  return said;
}

bool is_one_of(std::string_view code, std::initializer_list<std::string_view> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

ErrorKind kind_of_refusal(long status, std::string_view code) {
  if (status == 429 || is_one_of(code, {"Throttling", "ThrottlingException", "TooManyRequestsException",
                                        "RequestLimitExceeded", "SlowDown"}))
    return ErrorKind::throttled;
  // IDPCommunicationError: STS cannot reach the identity provider.
  if (status >= 500 || status == 408 || code == "IDPCommunicationError") return ErrorKind::unavailable;
  if (status < 400) return ErrorKind::invalid;
  // 403 may pass: a new role, policy or pod association takes seconds to be known everywhere. It does not pass where
  // the code says that the request itself is wrong.
  const bool is_wrong = is_one_of(code, {"ExpiredToken", "ExpiredTokenException", "InvalidIdentityToken",
                                         "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException",
                                         "IncompleteSignature", "MissingAuthenticationToken"});
  return status == 403 && !is_wrong ? ErrorKind::unavailable : ErrorKind::unauthorized;
}

Result<Credentials> complete(Credentials credentials, std::string_view expiry) {
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty())
    return fail(ErrorKind::invalid, "it holds no key");
  if (expiry.empty()) return credentials;
  const auto time = parse_rfc3339(expiry);
  if (!time) return fail(ErrorKind::invalid, "its expiry is not a time");
  credentials.expiry = *time;
  return credentials;
}

}  // namespace

Error refusal_of(const HttpReply& reply, std::string_view secret) {
  const Refusal said = words_of(reply);
  Error error{kind_of_refusal(reply.status, said.code), fmt::format("it answered {}", reply.status),
              retry_after_of(reply)};
  if (!said.code.empty()) error.message += fmt::format(" {}", sanitize_server_text(said.code, {secret}));
  if (!said.words.empty()) error.message += fmt::format(" ({})", sanitize_server_text(said.words, {secret}));
  return error;
}

Result<Credentials> parse_sts_reply(const HttpReply& reply, std::string_view token) {
  if (reply.status / 100 != 2) return tl::unexpected(refusal_of(reply, token));
  const auto element = xml::element(reply.body, "Credentials");
  if (!element) return fail(ErrorKind::invalid, "the reply is not STS's: check AWS_ENDPOINT_URL_STS");
  return complete({.access_key_id = xml::text_of(*element, "AccessKeyId"),
                   .secret_access_key = xml::text_of(*element, "SecretAccessKey"),
                   .session_token = xml::text_of(*element, "SessionToken")},
                  xml::text_of(*element, "Expiration"));
}

Result<Credentials> parse_json_reply(const HttpReply& reply, std::string_view secret) {
  if (reply.status / 100 != 2) return tl::unexpected(refusal_of(reply, secret));
  const json object = json::parse(reply.body, nullptr, false);
  if (!object.is_object()) return fail(ErrorKind::invalid, "the reply is no JSON object");
  // IMDS answers 200 even when it could not assume the role.
  if (const std::string code = text_in(object, "Code"); !code.empty() && code != "Success") {
    Error error = refusal_of(reply, secret);
    error.kind = ErrorKind::unauthorized;
    return tl::unexpected(error);
  }
  return complete({.access_key_id = text_in(object, "AccessKeyId"),
                   .secret_access_key = text_in(object, "SecretAccessKey"),
                   .session_token = text_in(object, "Token")},
                  text_in(object, "Expiration"));
}

Result<Credentials> parse_sso_reply(const HttpReply& reply, std::string_view token) {
  if (reply.status / 100 != 2) {
    Error error = refusal_of(reply, token);
    if (reply.status == 401 || reply.status == 403) {
      error.kind = ErrorKind::unauthorized;
      error.message += ": run aws sso login, and check sso_account_id and sso_role_name";
    }
    return tl::unexpected(error);
  }
  const json object = json::parse(reply.body, nullptr, false);
  if (!object.contains("roleCredentials") || !object["roleCredentials"].is_object())
    return fail(ErrorKind::invalid, "the reply holds no roleCredentials");
  const json& given = object["roleCredentials"];
  auto credentials = complete({.access_key_id = text_in(given, "accessKeyId"),
                               .secret_access_key = text_in(given, "secretAccessKey"),
                               .session_token = text_in(given, "sessionToken")},
                              "");
  if (credentials && given.contains("expiration") && given["expiration"].is_number_integer())
    credentials->expiry = Time{std::chrono::milliseconds{given["expiration"].get<std::int64_t>()}};
  return credentials;
}

Result<Credentials> parse_process_output(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object() || object.value("Version", json{}) != 1)
    return fail(ErrorKind::invalid, "its output is not a JSON object with \"Version\": 1");
  return complete({.access_key_id = text_in(object, "AccessKeyId"),
                   .secret_access_key = text_in(object, "SecretAccessKey"),
                   .session_token = text_in(object, "SessionToken")},
                  text_in(object, "Expiration"));
}

}  // namespace trainyard::storage

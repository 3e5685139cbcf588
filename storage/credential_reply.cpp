#include "storage/credential_reply.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/rfc3339.hpp"
#include "storage/server_words.hpp"
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
  if (!object.is_object()) return said;
  for (const char* name : {"code", "Code"}) {
    if (said.code.empty()) said.code = text_in(object, name);
  }
  for (const char* name : {"message", "Message"}) {
    if (said.words.empty()) said.words = text_in(object, name);
  }
  return said;
}

ErrorKind kind_of(long status, std::string_view code) {
  // STS says it of an identity provider that it does not reach.
  if (status == 429 || code == "Throttling" || code == "ThrottlingException") return ErrorKind::throttled;
  if (status >= 500 || code == "IDPCommunicationError") return ErrorKind::unavailable;
  return status >= 400 ? ErrorKind::unauthorized : ErrorKind::invalid;
}

Result<Credentials> complete(Credentials credentials, std::string_view expiry) {
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty())
    return fail(ErrorKind::invalid, "the reply holds no key");
  if (expiry.empty()) return credentials;
  const auto time = parse_rfc3339(expiry);
  if (!time) return fail(ErrorKind::invalid, "the reply's expiry is no time");
  credentials.expiry = *time;
  return credentials;
}

}  // namespace

Error refusal_of(const HttpReply& reply, std::string_view secret) {
  const Refusal said = words_of(reply);
  Error error{kind_of(reply.status, said.code), fmt::format("it answered {}", reply.status), {}};
  if (!said.code.empty()) error.message += fmt::format(" {}", server_words(said.code, {secret}));
  if (!said.words.empty()) error.message += fmt::format(" ({})", server_words(said.words, {secret}));
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
  // IMDS answers 200 also when it could not take the role on.
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

}  // namespace trainyard::storage

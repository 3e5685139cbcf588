#include "storage/gcs_error.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "storage/server_error.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

using nlohmann::json;

constexpr long gcs_not_implemented = 501;  // An answer of emulators.

constexpr std::string_view gcs_access =
    "Allow this account to list the bucket and to get, create and delete objects in it (roles/storage.objectUser)";
constexpr std::string_view gcs_identity =
    "Set GOOGLE_APPLICATION_CREDENTIALS to a file with credentials, or name a Secret with the key credentials.json in "
    "checkpoint.credentialsSecret, or give the pod a service account of Google's";

// The reasons of the JSON API and the codes of the XML API. Any other one is judged by the status, such as "required":
// with 401 the token is missing, and with 400 a parameter.
constexpr ServerMeaning gcs_meanings[] = {
    {"rateLimitExceeded", ErrorKind::throttled, ""},
    {"userRateLimitExceeded", ErrorKind::throttled, ""},
    {"SlowDown", ErrorKind::throttled, ""},
    {"backendError", ErrorKind::unavailable, ""},
    {"internalError", ErrorKind::unavailable, ""},
    {"RequestTimeout", ErrorKind::timeout, ""},
    {"NoSuchUpload", ErrorKind::gone, ""},
    {"BadDigest", ErrorKind::corrupt, ""},
    {"IncompleteBody", ErrorKind::unavailable, ""},
    {"forbidden", ErrorKind::forbidden, gcs_access},
    {"AccessDenied", ErrorKind::forbidden, gcs_access},
    {"retentionPolicyNotMet", ErrorKind::forbidden, "The bucket's retention policy forbids it"},
};

/// The server's code and words for a refusal.
struct GcsRefusal {
  std::string code;
  std::string words;
};

GcsRefusal gcs_refusal(const HttpReply& reply) {
  GcsRefusal said{.code = xml::text_of(reply.body, "Code"), .words = xml::text_of(reply.body, "Message")};
  const json object = json::parse(reply.body, nullptr, false);
  if (object.contains("error") && object["error"].is_object()) {
    const json& error = object["error"];
    if (const auto words = error.find("message"); words != error.end() && words->is_string()) said.words = *words;
    const auto errors = error.find("errors");
    const bool has_reason = errors != error.end() && errors->is_array() && !errors->empty() &&
                            errors->front().is_object() && errors->front().contains("reason") &&
                            errors->front()["reason"].is_string();
    if (has_reason) said.code = errors->front()["reason"];
  } else if (reply.header("content-type").starts_with("text/") && reply.body.find('<') == std::string::npos) {
    said.words = reply.body;  // Downloads are refused in plain text.
  }
  return said;
}

// True when the server says that the bytes it got do not match their checksum.
bool is_wrong_checksum(long status, const std::string& words) {
  const bool names_one = words.find("CRC32C") != std::string::npos || words.find("crc32c") != std::string::npos;
  return status == 400 && names_one;
}

std::string_view advice_by_status(long status) {
  if (status == 401) return gcs_identity;
  return status == 403 ? gcs_access : std::string_view{};
}

}  // namespace

bool is_missing_gcs_bucket(const HttpReply& reply) {
  const GcsRefusal said = gcs_refusal(reply);
  return reply.status == 404 &&
         (said.code == "NoSuchBucket" || said.words.find("bucket does not exist") != std::string::npos);
}

Error gcs_error(const HttpReply& reply, std::string_view doing, const GcsSettings& settings) {
  const GcsRefusal said = gcs_refusal(reply);
  const ServerMeaning* meaning = find_meaning(gcs_meanings, said.code);
  const auto tokens = settings.tokens ? settings.tokens->recent() : std::array<std::string, 2>{};
  Error error{meaning != nullptr ? meaning->kind : kind_of_status(reply.status),
              fmt::format("{}: {} answered {}", doing, settings.endpoint, reply.status), retry_after_of(reply)};
  if (is_wrong_checksum(reply.status, said.words)) error.kind = ErrorKind::corrupt;
  if (reply.status == gcs_not_implemented) error.kind = ErrorKind::invalid;
  if (error.kind == ErrorKind::gone && meaning == nullptr)
    error.kind = ErrorKind::unavailable;  // A new upload may succeed.
  if (!said.code.empty()) error.message += fmt::format(" {}", sanitize_server_text(said.code, {tokens[0], tokens[1]}));
  if (!said.words.empty())
    error.message += fmt::format(" ({})", sanitize_server_text(said.words, {tokens[0], tokens[1]}));
  const std::string_view advice = is_missing_gcs_bucket(reply) ? "Create the bucket, or correct its name in the URI"
                                  : meaning != nullptr         ? meaning->advice
                                                               : advice_by_status(reply.status);
  if (!advice.empty()) error.message += fmt::format(". {}", advice);
  return error;
}

}  // namespace trainyard::storage

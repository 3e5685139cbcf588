#include "storage/s3_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/text.hpp"
#include "storage/server_error.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

constexpr long internal_server_error = 500;

constexpr ServerMeaning meanings[] = {
    {"NoSuchBucket", ErrorKind::not_found, "Create the bucket, or correct its name in the URI"},
    {"NoSuchKey", ErrorKind::not_found, ""},
    {"NoSuchUpload", ErrorKind::gone, ""},
    {"InvalidAccessKeyId", ErrorKind::unauthorized, "Check AWS_ACCESS_KEY_ID, which this server does not know"},
    {"XAdminUserNotFound", ErrorKind::unauthorized, "Check AWS_ACCESS_KEY_ID, which this server does not know"},
    {"SignatureDoesNotMatch", ErrorKind::unauthorized, "Check AWS_SECRET_ACCESS_KEY, which does not fit the key's id"},
    {"ExpiredToken", ErrorKind::unauthorized, "Renew AWS_SESSION_TOKEN and the key that came with it"},
    {"InvalidToken", ErrorKind::unauthorized, "Check AWS_SESSION_TOKEN, which must come with the key"},
    {"RequestTimeTooSkewed", ErrorKind::unavailable,  // It passes when the clock is set, as time services do.
     "Set this machine's clock, which differs too much from the server's"},
    {"AccessDenied", ErrorKind::forbidden,
     "Allow this key to list the bucket and to get, put and delete objects under the prefix"},
    {"AllAccessDisabled", ErrorKind::forbidden, ""},
    {"AuthorizationHeaderMalformed", ErrorKind::invalid, "Check the region"},
    {"PermanentRedirect", ErrorKind::invalid, "Check the region and the endpoint"},
    {"TemporaryRedirect", ErrorKind::unavailable, ""},
    {"IllegalLocationConstraintException", ErrorKind::invalid, "Check the region"},
    {"NotImplemented", ErrorKind::invalid, "This server lacks what is needed of it"},
    {"PreconditionFailed", ErrorKind::already_exists, ""},
    {"ConditionalRequestConflict", ErrorKind::conflict, ""},
    {"OperationAborted", ErrorKind::unavailable, ""},  // Such as a bucket that is being made or deleted.
    {"InvalidRange", ErrorKind::corrupt, "The object ends before the bytes that were asked for"},
    {"BadDigest", ErrorKind::corrupt, ""},
    {"XAmzContentChecksumMismatch", ErrorKind::corrupt, ""},
    {"InvalidDigest", ErrorKind::invalid, ""},  // This and the next five: 400, or within a 200.
    {"InvalidPart", ErrorKind::invalid, ""},
    {"InvalidPartOrder", ErrorKind::invalid, ""},
    {"InvalidRequest", ErrorKind::invalid, ""},
    {"MalformedXML", ErrorKind::invalid, ""},
    {"EntityTooSmall", ErrorKind::invalid, "Set TRAINYARD_STORAGE_PART_MIB to what this server takes"},
    {"IncompleteBody", ErrorKind::unavailable, ""},
    {"RequestTimeout", ErrorKind::timeout, ""},
    {"SlowDown", ErrorKind::throttled, ""},
    {"Throttling", ErrorKind::throttled, ""},
    {"TooManyRequests", ErrorKind::throttled, ""},
    {"InternalError", ErrorKind::unavailable, ""},
    {"ServiceUnavailable", ErrorKind::unavailable, ""},
    {"QuotaExceeded", ErrorKind::io, "Free space there, or raise the quota"},
    {"XMinioStorageFull", ErrorKind::io, "Free space there"},
};

std::string quoted(std::string text, const S3Config& config) {
  const auto [last, former] = config.credentials->recent();
  return sanitize_server_text(
      std::move(text), {last.secret_access_key, last.session_token, former.secret_access_key, former.session_token});
}

// The region where the server says that the bucket is.
std::string true_region(const HttpReply& reply, const S3Config& config) {
  std::string region = reply.header("x-amz-bucket-region");
  if (region.empty()) region = xml::text_of(reply.body, "Region");
  return region == config.region ? std::string{} : quoted(region, config);
}

}  // namespace

Error s3_error(const HttpReply& reply, std::string_view doing, const S3Config& config) {
  const std::string code = xml::text_of(reply.body, "Code");
  const std::string words = xml::text_of(reply.body, "Message");
  const ServerMeaning* meaning = find_meaning(meanings, code);

  // A slow server answers 200 before it finds an error. An error that has no known code may pass.
  const long status = reply.status / 100 == 2 ? internal_server_error : reply.status;
  Error error{meaning != nullptr ? meaning->kind : kind_of_status(status),
              fmt::format("{}: {} answered {}", doing, config.endpoint(), reply.status), retry_after_of(reply)};
  if (!code.empty()) error.message += fmt::format(" {}", quoted(code, config));
  if (!words.empty()) error.message += fmt::format(" ({})", quoted(words, config));
  if (code.empty() && reply.status >= 400 && reply.status < 500 && reply.status != 404 && reply.status != 412) {
    error.message += " without S3's words for it. Check that the endpoint is an S3 server";
  }
  if (meaning != nullptr && !meaning->advice.empty()) error.message += fmt::format(". {}", meaning->advice);
  if (const std::string region = true_region(reply, config); error.kind == ErrorKind::invalid && !region.empty()) {
    error.message += fmt::format(": the bucket is in {}, not in {}", region, config.region);
  }
  return error;
}

bool may_refuse_checksums(const HttpReply& reply) {
  constexpr long bad_request = 400;
  constexpr long not_implemented = 501;
  const std::string code = xml::text_of(reply.body, "Code");
  if (code == "BadDigest" || code == "InvalidDigest" || code == "XAmzContentChecksumMismatch") return false;
  const std::string words = to_lower(xml::text_of(reply.body, "Message") + " " + xml::text_of(reply.body, "Header"));
  if (reply.status != bad_request && reply.status != not_implemented) return false;
  if (words.find("checksum") != std::string::npos) return true;
  return reply.status == not_implemented && words.find("if-none-match") == std::string::npos;
}

}  // namespace trainyard::storage

#include "storage/s3_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/logging.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/http_client.hpp"
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
    // S3 answers the next six codes with HTTP 400, or inside an HTTP 200.
    {"InvalidDigest", ErrorKind::invalid, ""},
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

namespace {

// Empty when `text` is no date.
std::optional<Time> parse_date(const std::string& text) {
  const time_t seconds = ::curl_getdate(text.c_str(), nullptr);
  if (seconds < 0) return std::nullopt;
  return Time{std::chrono::seconds{seconds}};
}

}  // namespace

S3Client::S3Client(S3Config config, HttpTuning tuning)
    : config_{std::move(config)}, has_checksums_{config_.checksums != S3Checksums::off}, http_{std::move(tuning)} {}

Result<HttpRequest> S3Client::sign(S3Request request, Remedies& remedies) const {
  remedies.used = TRY(config_.credentials->get());
  // A signature is valid for minutes only, so each one takes the current time.
  const std::string date = amz_date(now());
  std::string path = "/";
  if (config_.path_style) path += percent_encoded(config_.bucket, false) + (request.object.empty() ? "" : "/");
  path += percent_encoded(request.object, true);
  remedies.has_checksums = has_checksums_ && !remedies.is_without_checksums && !request.checksums.empty();
  if (remedies.has_checksums) request.headers.insert(request.checksums.begin(), request.checksums.end());
  request.headers["host"] = config_.host;
  request.headers["x-amz-date"] = date;
  request.headers["x-amz-content-sha256"] = request.payload_hash;
  if (!remedies.used.session_token.empty()) request.headers["x-amz-security-token"] = remedies.used.session_token;
  const SignedParts parts{.method = request.method,
                          .path = path,
                          .query = request.query,
                          .headers = request.headers,
                          .payload_hash = request.payload_hash};
  request.headers["authorization"] = authorization(parts, remedies.used, {config_.region, "s3"}, date);
  const std::string query = canonical_query(request.query);
  return HttpRequest{.method = std::move(request.method),
                     .url = fmt::format("{}{}{}{}", config_.endpoint(), path, query.empty() ? "" : "?", query),
                     .headers = std::move(request.headers),
                     .body = std::move(request.body),
                     .into = request.into,
                     .deadline = request.deadline};
}

bool S3Client::remedy(const HttpReply& reply, Remedies& remedies) {
  const std::string code = xml::text_of(reply.body, "Code");
  if (code == "ExpiredToken" && !remedies.has_renewed) {
    remedies.has_renewed = true;
    config_.credentials->refuse(remedies.used);
    return true;
  }
  if (code == "RequestTimeTooSkewed" && !remedies.has_set_clock) {
    remedies.has_set_clock = true;
    const auto date = parse_date(reply.header("date"));
    if (!date) return false;
    clock_error_ = std::chrono::duration_cast<std::chrono::milliseconds>(*date - config_.clock->now());
    logging::warn("this machine's clock is wrong; requests are signed with the server's time",
                  {{"seconds", std::chrono::duration_cast<std::chrono::seconds>(clock_error_.load()).count()}});
    return true;
  }
  if (remedies.has_checksums && config_.checksums == S3Checksums::automatic && may_refuse_checksums(reply)) {
    remedies.is_without_checksums = true;
    return true;
  }
  return false;
}

void S3Client::learn_that_checksums_are_refused() {
  if (!has_checksums_.exchange(false)) return;
  logging::warn("this S3 server takes no checksums; only TLS guards what is sent to it",
                {{"endpoint", config_.endpoint()}});
}

Result<void> S3Client::perform(std::span<const S3Call> calls, std::size_t connection_count, OnError on_error,
                               const std::stop_token& stop) {
  std::vector<HttpCall> http_calls;
  std::vector<Remedies> remedies(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const S3Call& call = calls[i];
    http_calls.push_back({.doing = fmt::format("{} at {}", call.doing, config_.endpoint()),
                          .make = [this, &call, &done = remedies[i]] { return sign(call.make(), done); },
                          .accept = [this, &call, &done = remedies[i]](const HttpReply& reply) -> Result<void> {
                            if (reply.status / 100 == 2) {
                              if (done.is_without_checksums) learn_that_checksums_are_refused();
                              return call.accept(reply);
                            }
                            const Error error = s3_error(reply, call.doing, config_);
                            if (remedy(reply, done)) return fail(ErrorKind::unavailable, error.message);
                            return call.refuse ? call.refuse(reply, error) : tl::unexpected(error);
                          },
                          .retries_conflict = call.retries_conflict,
                          .patience = call.patience});
  }
  return http_.perform(http_calls, connection_count, on_error, stop);
}

Result<HttpReply> S3Client::send(std::string doing, S3Request request,
                                 std::optional<std::chrono::milliseconds> patience) {
  return accepted_reply(
      *this, S3Call{.make = [&] { return request; }, .accept = {}, .doing = std::move(doing), .patience = patience});
}

}  // namespace trainyard::storage

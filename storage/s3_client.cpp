#include "storage/s3_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "storage/http_client.hpp"
#include "storage/s3_error.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
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

#include "storage/s3_client.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/clock.hpp"
#include "storage/s3_error.hpp"

namespace trainyard::storage {

S3Client::S3Client(S3Config config, HttpTuning tuning) : config_(std::move(config)), http_(std::move(tuning)) {}

HttpRequest S3Client::sign(S3Request request) const {
  // A signature holds for minutes: the calendar is asked at each one.
  const std::string date = amz_date(SystemClock{}.now());
  std::string path = "/";
  if (config_.path_style) path += percent_encoded(config_.bucket, false) + (request.object.empty() ? "" : "/");
  path += percent_encoded(request.object, true);
  request.headers["host"] = config_.host;
  request.headers["x-amz-date"] = date;
  request.headers["x-amz-content-sha256"] = request.payload_hash;
  if (!config_.credentials.session_token.empty())
    request.headers["x-amz-security-token"] = config_.credentials.session_token;
  const SignedParts parts{.method = request.method,
                          .path = path,
                          .query = request.query,
                          .headers = request.headers,
                          .payload_hash = request.payload_hash};
  request.headers["authorization"] = authorization(parts, config_.credentials, {config_.region, "s3"}, date);
  const std::string query = canonical_query(request.query);
  return {.method = std::move(request.method),
          .url = fmt::format("{}{}{}{}", config_.endpoint(), path, query.empty() ? "" : "?", query),
          .headers = std::move(request.headers),
          .body = std::move(request.body),
          .into = request.into,
          .deadline = request.deadline};
}

Result<void> S3Client::perform(std::span<const S3Call> calls, std::size_t connection_count, OnError on_error) {
  std::vector<HttpCall> http_calls;
  for (const S3Call& call : calls) {
    http_calls.push_back({.doing = fmt::format("{} at {}", call.doing, config_.endpoint()),
                          .make = [this, &call] { return sign(call.make()); },
                          .accept = [this, &call](const HttpReply& reply) -> Result<void> {
                            if (reply.status / 100 == 2) return call.accept(reply);
                            const Error error = s3_error(reply, call.doing, config_);
                            return call.refuse ? call.refuse(reply, error) : tl::unexpected(error);
                          },
                          .retries_conflict = call.retries_conflict,
                          .patience = call.patience});
  }
  return http_.perform(http_calls, connection_count, on_error);
}

Result<HttpReply> S3Client::send(std::string doing, S3Request request,
                                 std::optional<std::chrono::milliseconds> patience) {
  HttpReply accepted;
  const S3Call call{.make = [&] { return request; },
                    .accept = [&](const HttpReply& reply) -> Result<void> {
                      accepted = reply;
                      return {};
                    },
                    .doing = std::move(doing),
                    .patience = patience};
  return perform({&call, 1}, 1).map([&] { return std::move(accepted); });
}

}  // namespace trainyard::storage

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "storage/http_client.hpp"
#include "storage/s3_config.hpp"

namespace trainyard::storage {

/// A request to an S3 server, before it is signed.
struct S3Request {
  std::string method;
  std::string object;  ///< Under the bucket, with the prefix; empty: the bucket itself.
  std::vector<std::pair<std::string, std::string>> query;
  std::map<std::string, std::string> headers;    ///< Names in lower case; all are signed.
  std::map<std::string, std::string> checksums;  ///< Headers too, but left out for a server that takes no checksums.
  std::vector<std::span<const std::byte>> body;
  std::string payload_hash{unsigned_payload};
  std::span<std::byte> into;
  std::optional<std::chrono::milliseconds> deadline;  ///< As HttpRequest's.
};

/// One S3 request with its judge.
struct S3Call {
  std::function<S3Request()> make;                       ///< Called for every try.
  std::function<Result<void>(const HttpReply&)> accept;  ///< Judges a 2xx reply.
  std::string doing;                                     ///< "put s3://bucket/key"
  bool retries_conflict = true;
  std::optional<std::chrono::milliseconds> patience = {};  ///< Instead of the tuning's.
  /// Judges another reply, with the error that it means; absent: that error.
  std::function<Result<void>(const HttpReply&, const Error&)> refuse = {};
};

/// Signed S3 requests with retries. A request that the server refuses because the credentials are expired, because this
/// machine's clock is wrong, or perhaps because of its checksum headers, is repeated once with new credentials, with
/// the server's time or without those headers. Any thread may call.
class S3Client {
 public:
  S3Client(S3Config config, HttpTuning tuning);

  [[nodiscard]] Result<void> perform(std::span<const S3Call> calls, std::size_t connection_count,
                                     OnError on_error = OnError::cut, const std::stop_token& stop = {});
  /// One request, and its 2xx reply.
  [[nodiscard]] Result<HttpReply> send(std::string doing, S3Request request,
                                       std::optional<std::chrono::milliseconds> patience = {});

  /// As HttpClient's.
  [[nodiscard]] std::string trouble() const { return http_.trouble(); }
  [[nodiscard]] const S3Config& config() const { return config_; }
  /// Whether requests carry checksums: false when they are switched off, and once a server has taken a request only
  /// without them.
  [[nodiscard]] bool has_checksums() const { return has_checksums_; }
  /// The server's time, as far as it is known.
  [[nodiscard]] Time now() const { return config_.clock->now() + clock_error_.load(); }

 private:
  /// What has been tried so far against refusals of one call.
  struct Remedies {
    Credentials used;  // By its last try.
    bool has_renewed = false;
    bool has_set_clock = false;
    bool has_checksums = false;  // In its last try.
    bool is_without_checksums = false;
  };
  [[nodiscard]] Result<HttpRequest> sign(S3Request request, Remedies& remedies) const;
  /// Whether the request that got `reply` is to be repeated now that something has changed.
  [[nodiscard]] bool remedy(const HttpReply& reply, Remedies& remedies);
  void learn_that_checksums_are_refused();

  const S3Config config_;
  std::atomic<std::chrono::milliseconds> clock_error_{};  // What is added to this machine's time.
  std::atomic<bool> has_checksums_;
  HttpClient http_;
};

}  // namespace trainyard::storage

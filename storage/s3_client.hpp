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
#include "storage/http_message.hpp"
#include "storage/s3_config.hpp"

namespace trainyard::storage {

/// The error that `reply` means: a refusal, or a reply of status 200 that holds an error. The message holds `doing`,
/// the server's code and text, and advice where there is any, but no secret, even if the server repeats one. Pure.
[[nodiscard]] Error s3_error(const HttpReply& reply, std::string_view doing, const S3Config& config);

/// True when `reply`, to a request with checksum headers, may mean that the server does not know these headers: it says
/// so, or it answers 501 without naming another header. False for a checksum that does not match. Pure.
[[nodiscard]] bool may_refuse_checksums(const HttpReply& reply);

/// A request to an S3 server, before it is signed.
struct S3Request {
  std::string method;
  std::string object;  ///< Its key in the bucket, with the store's prefix; empty: the bucket itself.
  std::vector<std::pair<std::string, std::string>> query;
  std::map<std::string, std::string> headers;    ///< Names in lower case; all are signed.
  std::map<std::string, std::string> checksums;  ///< More headers, which are not sent to a server without checksums.
  std::vector<std::span<const std::byte>> body;
  std::string payload_hash{unsigned_payload};
  std::span<std::byte> into;
  std::optional<std::chrono::milliseconds> deadline;  ///< As HttpRequest's.
};

/// One S3 request, and the functions that judge its reply.
struct S3Call {
  std::function<S3Request()> make;                       ///< Called for every try.
  std::function<Result<void>(const HttpReply&)> accept;  ///< Judges a 2xx reply.
  std::string doing;                                     ///< "put s3://bucket/key"
  bool retries_conflict = true;
  std::optional<std::chrono::milliseconds> patience = {};  ///< Instead of the tuning's.
  /// Judges any other reply and the error that it means. Absent: the call fails with that error.
  std::function<Result<void>(const HttpReply&, const Error&)> refuse = {};
};

/// Signed S3 requests with retries. A refused request is repeated once with new credentials when they had expired, with
/// the server's time when this machine's clock is wrong, and without checksum headers when they may be the cause. Any
/// thread may call.
class S3Client {
 public:
  S3Client(S3Config config, HttpTuning tuning);

  [[nodiscard]] Result<void> perform(std::span<const S3Call> calls, std::size_t connection_count,
                                     OnError on_error = OnError::cut, const std::stop_token& stop = {});
  /// Sends one request and returns its 2xx reply.
  [[nodiscard]] Result<HttpReply> send(std::string doing, S3Request request,
                                       std::optional<std::chrono::milliseconds> patience = {});

  /// As HttpClient's.
  [[nodiscard]] std::string trouble() const { return http_.trouble(); }
  [[nodiscard]] const S3Config& config() const { return config_; }
  /// True when requests carry checksums: false when they are switched off, and once a request succeeded only without
  /// them.
  [[nodiscard]] bool has_checksums() const { return has_checksums_; }
  /// The server's time, or this machine's until a reply has shown a difference.
  [[nodiscard]] Time now() const { return config_.clock->now() + clock_error_.load(); }

 private:
  /// The remedies that were tried so far for one call.
  struct Remedies {
    Credentials used;  // In the last try.
    bool has_renewed = false;
    bool has_set_clock = false;
    bool has_checksums = false;  // In the last try.
    bool is_without_checksums = false;
  };
  [[nodiscard]] Result<HttpRequest> sign(S3Request request, Remedies& remedies) const;
  /// Applies the remedy for `reply`. True when there is one and the request should be repeated.
  [[nodiscard]] bool remedy(const HttpReply& reply, Remedies& remedies);
  void learn_that_checksums_are_refused();

  const S3Config config_;
  std::atomic<std::chrono::milliseconds> clock_error_{};  // The correction that is added to this machine's time.
  std::atomic<bool> has_checksums_;
  HttpClient http_;
};

}  // namespace trainyard::storage

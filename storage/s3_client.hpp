#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
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
  std::map<std::string, std::string> headers;  ///< Names in lower case; all are signed.
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

/// Signed S3 requests with retries. Any thread may call.
class S3Client {
 public:
  S3Client(S3Config config, HttpTuning tuning);

  [[nodiscard]] Result<void> perform(std::span<const S3Call> calls, std::size_t connection_count,
                                     OnError on_error = OnError::cut);
  /// One request, and its 2xx reply.
  [[nodiscard]] Result<HttpReply> send(std::string doing, S3Request request,
                                       std::optional<std::chrono::milliseconds> patience = {});

  [[nodiscard]] const S3Config& config() const { return config_; }

 private:
  [[nodiscard]] HttpRequest sign(S3Request request) const;

  const S3Config config_;
  HttpClient http_;
};

}  // namespace trainyard::storage

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "common/backoff.hpp"
#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// Something to be done by HTTP, again and again until it succeeds or cannot.
struct HttpCall {
  std::string doing;  ///< "put s3://bucket/key": begins the messages of what never got a reply.
  /// Called for every try, so that signatures are fresh. Its error is as good as a reply's.
  std::function<Result<HttpRequest>()> make;
  /// Judges a reply of any status. Transient errors are tried again, and corrupt ones a few times.
  std::function<Result<void>(const HttpReply&)> accept;
  bool retries_conflict = true;                       ///< Whether ErrorKind::conflict is transient here.
  std::optional<std::chrono::milliseconds> patience;  ///< Instead of the tuning's.
};

/// What becomes of the transfers that are on their way when another one has failed for good.
enum class OnError {
  cut,    ///< Their connections are closed.
  drain,  ///< They end first, so that the server is done with them when the caller hears of the error.
};

struct HttpTuning {
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::seconds stall_timeout{
      30};  ///< A transfer that moves less than 1 KiB/s for as long is given up and tried again.
  /// How long calls are tried again while none succeeds, and at least once each. Before the client's first success it
  /// is `first_patience`, since most likely the configuration is wrong then; but `patience` where the server says when
  /// to come again.
  std::chrono::milliseconds patience{90'000};
  std::chrono::milliseconds first_patience{10'000};
  Backoff backoff{.initial = std::chrono::milliseconds{100}, .max = std::chrono::milliseconds{5'000}};
  std::string ca_bundle;  ///< A file of PEM certificates; empty: the system's.
};

class HttpConnections;

/// HTTP/1.1 over libcurl, with retries. Any thread may call: each call drives its own transfers, over connections that
/// earlier ones left.
class HttpClient {
 public:
  explicit HttpClient(HttpTuning tuning);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Does all `calls`, in any order and up to `connection_count` at a time. The first error that is final ends all of
  /// them; so does a stop that is requested, at once and with `cancelled`.
  [[nodiscard]] Result<void> perform(std::span<const HttpCall> calls, std::size_t connection_count,
                                     OnError on_error = OnError::cut, const std::stop_token& stop = {});

  /// The last error for which a call is being tried again; empty while none is.
  [[nodiscard]] std::string trouble() const;

 private:
  /// Keeps `error`, for which the perform() that uses the connections `of` tries again; an empty one removes it.
  void set_trouble(const HttpConnections* of, std::string error);

  const HttpTuning tuning_;
  std::atomic<bool> has_succeeded_ = false;
  mutable std::mutex mutex_;  // guards idle_ and troubles_
  std::vector<std::unique_ptr<HttpConnections>> idle_;
  std::map<const HttpConnections*, std::string> troubles_;  // Of every perform() that tries a call again.
};

}  // namespace trainyard::storage

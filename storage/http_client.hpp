#pragma once

#include <algorithm>
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
#include <utility>
#include <vector>

#include "common/backoff.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// Remembers since when the calls of one batch fail: their patience begins there.
class FailingTime {
 public:
  void on_success(Instant now) {
    since_.reset();
    last_success_ = now;
  }
  /// Notes failure number `failures` (from 1) of one call, whose try began at `started`. Returns the instant from which
  /// the patience with that call is counted: `now` for its first failure, since over a slow link one try may take
  /// longer than the patience; never an instant before another call's success, which shows that the server was there.
  [[nodiscard]] Instant on_failure(std::int64_t failures, Instant started, Instant now) {
    if (!since_) since_ = std::max(started, last_success_);
    return failures == 1 ? now : *since_;
  }
  [[nodiscard]] bool is_failing() const { return since_.has_value(); }

 private:
  std::optional<Instant> since_;  ///< Empty when the last call that ended has succeeded.
  Instant last_success_{};
};

/// An HTTP request that is retried until it succeeds or cannot succeed.
struct HttpCall {
  std::string doing;  ///< "put s3://bucket/key": begins the message when no reply came.
  /// Called for every try, so that signatures are fresh. Its error is judged like the error of a reply.
  std::function<Result<HttpRequest>()> make;
  /// Judges a reply of any status. Transient errors are tried again, and corrupt ones a few times.
  std::function<Result<void>(const HttpReply&)> accept;
  bool retries_conflict = true;                       ///< True when ErrorKind::conflict is transient here.
  std::optional<std::chrono::milliseconds> patience;  ///< Instead of the tuning's.
};

/// How perform() treats the transfers in flight after another transfer has failed for good.
enum class OnError {
  cut,    ///< Their connections are closed.
  drain,  ///< perform() waits for them, so that the server has finished them when the caller gets the error.
};

struct HttpTuning {
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::seconds stall_timeout{
      30};  ///< A transfer that moves less than 1 KiB/s for as long is given up and tried again.
  /// How long calls are retried while none succeeds; each is retried at least once. Before the client's first success
  /// `first_patience` applies, since the configuration is most likely wrong then, unless the server sends Retry-After.
  std::chrono::milliseconds patience{90'000};
  std::chrono::milliseconds first_patience{10'000};
  Backoff backoff{.initial = std::chrono::milliseconds{100}, .max = std::chrono::milliseconds{5'000}};
  std::string ca_bundle;  ///< A file of PEM certificates; empty: the system's.
};

class HttpConnections;

/// HTTP/1.1 over libcurl, with retries. Any thread may call. Each perform() drives its own transfers, and reuses the
/// connections of earlier ones.
class HttpClient {
 public:
  explicit HttpClient(HttpTuning tuning);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Makes all `calls`, in any order and up to `connection_count` at a time. The first final error ends all of them; a
  /// requested stop ends them at once with `cancelled`.
  [[nodiscard]] Result<void> perform(std::span<const HttpCall> calls, std::size_t connection_count,
                                     OnError on_error = OnError::cut, const std::stop_token& stop = {});

  /// The last error for which a call is being retried; empty while none is.
  [[nodiscard]] std::string trouble() const;

 private:
  /// Keeps `error`, for which the perform() with the connections `of` retries a call. An empty `error` removes it.
  void set_trouble(const HttpConnections* of, std::string error);

  const HttpTuning tuning_;
  std::atomic<bool> has_succeeded_ = false;
  mutable std::mutex mutex_;  // guards idle_ and troubles_
  std::vector<std::unique_ptr<HttpConnections>> idle_;
  std::map<const HttpConnections*, std::string> troubles_;  // One for each perform() that retries a call.
};

/// Makes `call` with `client`, and returns the reply that the client passes to `call.accept`. The caller need not set
/// `call.accept`.
template <typename Client, typename Call>
[[nodiscard]] Result<HttpReply> accepted_reply(Client& client, Call call) {
  HttpReply accepted;
  call.accept = [&](const HttpReply& reply) -> Result<void> {
    accepted = reply;
    return {};
  };
  return client.perform(std::span<const Call>{&call, 1}, 1).map([&] { return std::move(accepted); });
}

}  // namespace trainyard::storage

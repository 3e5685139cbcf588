#include "storage/http_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "common/check.hpp"
#include "common/clock.hpp"
#include "common/try.hpp"
#include "storage/http_transfer.hpp"

namespace trainyard::storage {
/// A multi handle, whose connections stay open between calls, and easy handles to use with it. One thread at a time.
class HttpConnections {
 public:
  HttpConnections() : multi_{curl_multi_init()} { check(multi_ != nullptr, "libcurl has a multi handle"); }
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;
  ~HttpConnections() {
    for (CURL* handle : idle_) curl_easy_cleanup(handle);
    curl_multi_cleanup(multi_);
  }

  [[nodiscard]] CURLM* multi() const { return multi_; }
  [[nodiscard]] CURL* take() {
    CURL* handle = idle_.empty() ? curl_easy_init() : idle_.back();
    check(handle != nullptr, "libcurl has an easy handle");
    if (!idle_.empty()) idle_.pop_back();
    return handle;
  }
  void give_back(CURL* handle) { idle_.push_back(handle); }

 private:
  CURLM* multi_;
  std::vector<CURL*> idle_;
};

namespace {

constexpr std::int64_t corrupt_tries_max = 3;
constexpr std::chrono::milliseconds poll_max{1'000};

void start_libcurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_ALL);
  check(code == CURLE_OK, "libcurl starts");
}

Instant now() {
  return std::chrono::steady_clock::now();
}

/// The calls of one perform(). Each call is waiting, in flight or done.
class Batch {
 public:
  Batch(std::span<const HttpCall> calls, const HttpTuning& tuning, HttpConnections& connections,
        std::atomic<bool>& has_succeeded, std::function<void(std::string)> set_trouble)
      : tuning_{tuning},
        connections_{connections},
        has_succeeded_{has_succeeded},
        set_trouble_{std::move(set_trouble)} {
    for (const HttpCall& call : calls) progress_.push_back({.call = &call});
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() {
    for (Progress& one : progress_) {
      if (one.transfer) end_transfer(one);
    }
  }

  Result<void> run(std::size_t connection_count, const std::stop_token& stop) {
    while (done_count_ < progress_.size()) {
      if (stop.stop_requested())
        return fail(ErrorKind::cancelled, fmt::format("{}: it was given up", progress_.front().call->doing));
      TRY(start_what_is_due(connection_count));
      TRY(move());
      if (done_count_ < progress_.size()) wait(connection_count);
    }
    return {};
  }

  // Waits until the transfers in flight have ended, with or without success, unless a stop is requested.
  void drain(const std::stop_token& stop) {
    while (running_count_ > 0 && !stop.stop_requested()) {
      if (move() && running_count_ > 0) wait(running_count_);
    }
  }

 private:
  struct Progress {
    const HttpCall* call = nullptr;
    std::unique_ptr<HttpTransfer> transfer;  // While it is in flight.
    bool is_done = false;
    std::int64_t failures = 0;
    std::int64_t corrupt_replies = 0;
    Instant due{};  // Time of the next try.
    Instant started{};
  };

  Result<void> move() {
    int running = 0;
    const CURLMcode code = curl_multi_perform(connections_.multi(), &running);
    check(code == CURLM_OK, "libcurl's multi handle works");
    return take_what_ended();
  }

  Result<void> start_what_is_due(std::size_t connection_count) {
    for (Progress& one : progress_) {
      if (running_count_ >= connection_count) return {};
      if (one.is_done || one.transfer || one.due > now()) continue;
      one.started = now();
      auto request = one.call->make();
      if (!request) {
        TRY(plan_another_try(one, fail(one.call->doing, request.error()).value()));
        continue;
      }
      one.transfer =
          std::make_unique<HttpTransfer>(connections_.take(), std::move(*request), tuning_, stall_timeout(*one.call));
      curl_multi_add_handle(connections_.multi(), one.transfer->handle());
      ++running_count_;
    }
    return {};
  }

  Result<void> take_what_ended() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(connections_.multi(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      Progress& one = *std::find_if(progress_.begin(), progress_.end(), [&](const Progress& candidate) {
        return candidate.transfer && candidate.transfer->handle() == message->easy_handle;
      });
      const auto reply = one.transfer->finish(code);
      const Result<void> outcome = reply ? one.call->accept(*reply) : fail(one.call->doing, reply.error());
      end_transfer(one);
      if (outcome) {
        one.is_done = true;
        ++done_count_;
        has_succeeded_ = true;
        if (failing_time_.is_failing()) set_trouble_("");
        failing_time_.on_success(now());
      } else {
        TRY(plan_another_try(one, outcome.error()));
      }
    }
    return {};
  }

  void end_transfer(Progress& one) {
    CURL* handle = one.transfer->handle();
    curl_multi_remove_handle(connections_.multi(), handle);
    one.transfer.reset();
    connections_.give_back(handle);
    --running_count_;
  }

  // Success when the call will be retried; otherwise the error that ends perform().
  Result<void> plan_another_try(Progress& one, const Error& error) {
    ++one.failures;
    if (error.kind == ErrorKind::corrupt) ++one.corrupt_replies;
    const bool may_pass = error.kind == ErrorKind::corrupt    ? one.corrupt_replies < corrupt_tries_max
                          : error.kind == ErrorKind::conflict ? one.call->retries_conflict
                                                              : is_transient(error.kind);
    if (!may_pass) return tl::unexpected(error);
    const Instant since = failing_time_.on_failure(one.failures, one.started, now());
    // A server that sends Retry-After was reached, so the configuration is not the cause.
    const Instant end = since + (error.retry_after ? full_patience(*one.call) : patience(*one.call));
    if (now() >= end) return tl::unexpected(error);
    const auto delay = backoff_delay(tuning_.backoff, one.failures, random_share());
    one.due = now() + delay;
    if (error.retry_after) {
      // If the server asks for a longer wait than the patience allows, the last try is when the patience ends.
      one.due = std::min(now() + std::max(delay, *error.retry_after), end);
    } else if (one.due > end) {
      return tl::unexpected(error);
    }
    set_trouble_(error.message);
    return {};
  }

  [[nodiscard]] std::chrono::milliseconds full_patience(const HttpCall& call) const {
    return call.patience.value_or(tuning_.patience);
  }
  [[nodiscard]] std::chrono::milliseconds patience(const HttpCall& call) const {
    return has_succeeded_ ? full_patience(call) : call.patience.value_or(tuning_.first_patience);
  }

  // A server that accepts a connection and never answers must not take longer than the patience.
  [[nodiscard]] std::chrono::seconds stall_timeout(const HttpCall& call) const {
    return std::min(tuning_.stall_timeout, std::chrono::ceil<std::chrono::seconds>(patience(call)));
  }

  void wait(std::size_t connection_count) {
    auto timeout = poll_max;
    for (const Progress& one : progress_) {
      if (one.is_done || one.transfer || running_count_ >= connection_count) continue;
      timeout = std::min(timeout, std::chrono::ceil<std::chrono::milliseconds>(one.due - now()));
    }
    if (timeout.count() > 0) {
      curl_multi_poll(connections_.multi(), nullptr, 0, static_cast<int>(timeout.count()), nullptr);
    }
  }

  const HttpTuning& tuning_;
  HttpConnections& connections_;
  std::atomic<bool>& has_succeeded_;
  std::function<void(std::string)> set_trouble_;
  std::vector<Progress> progress_;
  std::size_t running_count_ = 0;
  std::size_t done_count_ = 0;
  FailingTime failing_time_;
};

}  // namespace

HttpClient::HttpClient(HttpTuning tuning) : tuning_{std::move(tuning)} {
  start_libcurl();
}

HttpClient::~HttpClient() = default;

Result<void> HttpClient::perform(std::span<const HttpCall> calls, std::size_t connection_count, OnError on_error,
                                 const std::stop_token& stop) {
  std::unique_ptr<HttpConnections> connections;
  {
    const std::scoped_lock lock{mutex_};
    if (!idle_.empty()) {
      connections = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!connections) connections = std::make_unique<HttpConnections>();
  Result<void> outcome;
  {
    Batch batch{calls, tuning_, *connections, has_succeeded_,
                [this, of = connections.get()](std::string error) { set_trouble(of, std::move(error)); }};
    const std::stop_callback wake{stop, [&] { curl_multi_wakeup(connections->multi()); }};
    outcome = batch.run(connection_count, stop);
    if (!outcome && on_error == OnError::drain) batch.drain(stop);
  }
  // The caller gets the final error, and nothing is retried any more.
  if (!outcome) set_trouble(connections.get(), "");
  const std::scoped_lock lock{mutex_};
  idle_.push_back(std::move(connections));
  return outcome;
}

std::string HttpClient::trouble() const {
  const std::scoped_lock lock{mutex_};
  return troubles_.empty() ? std::string{} : troubles_.begin()->second;
}

void HttpClient::set_trouble(const HttpConnections* of, std::string error) {
  const std::scoped_lock lock{mutex_};
  if (error.empty()) {
    troubles_.erase(of);
  } else {
    troubles_.insert_or_assign(of, std::move(error));
  }
}

}  // namespace trainyard::storage

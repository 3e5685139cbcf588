#include "storage/access_token.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/logging.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;

constexpr auto token_margin = 5min;  // Before the expiry: a token must outlive the request that carries it.
// The pause after an issuer failed or gave a token that is about to expire.
constexpr auto token_interval_min = 30s;

}  // namespace

AccessTokens::AccessTokens(Fetch fetch, std::shared_ptr<const Clock> clock)
    : fetch_{std::move(fetch)}, clock_{std::move(clock)} {}

bool AccessTokens::is_valid(Time now) const {
  return current_ && !is_refused_ && (!current_->expiry || now < *current_->expiry);
}

Result<std::string> AccessTokens::get() {
  std::unique_lock lock{mutex_};
  const std::uint64_t fetches_before = fetch_count_;
  for (;;) {
    const Time now = clock_->now();
    if (is_valid(now) && (is_fetching_ || now < renew_at_)) return current_->text;
    if (!is_fetching_) break;
    fetched_.wait(lock, [&] { return !is_fetching_; });
    // Another thread has just got an answer: take it.
    if (fetch_count_ != fetches_before && last_error_) return tl::unexpected(*last_error_);
  }
  is_fetching_ = true;
  lock.unlock();
  auto fetched = fetch_();
  lock.lock();
  is_fetching_ = false;
  ++fetch_count_;
  auto taken = take(std::move(fetched));
  lock.unlock();
  fetched_.notify_all();
  return taken;
}

// Call with the mutex locked.
Result<std::string> AccessTokens::take(Result<AccessToken> fetched) {
  const Time now = clock_->now();
  last_error_.reset();
  if (fetched) {
    if (current_ && current_->text != fetched->text) former_ = current_->text;
    current_ = std::move(*fetched);
    is_refused_ = false;
    has_warned_ = false;
    renew_at_ =
        current_->expiry ? std::max<Time>(*current_->expiry - token_margin, now + token_interval_min) : Time::max();
    return current_->text;
  }
  Error error = fetched.error();
  if (error.kind == ErrorKind::not_found) error.kind = ErrorKind::unauthorized;
  if (!is_valid(now)) {
    last_error_ = error;
    return tl::unexpected(error);
  }
  renew_at_ = now + token_interval_min;
  if (!has_warned_) {
    logging::warn("the access token is not renewed; the old one is still valid", {{"error", error.message}});
  }
  has_warned_ = true;
  return current_->text;
}

void AccessTokens::refuse(const std::string& token) {
  const std::scoped_lock lock{mutex_};
  if (current_ && current_->text == token) is_refused_ = true;
}

std::array<std::string, 2> AccessTokens::recent() const {
  const std::scoped_lock lock{mutex_};
  return {current_ ? current_->text : std::string{}, former_};
}

}  // namespace trainyard::storage

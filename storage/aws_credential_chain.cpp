#include "storage/aws_credential_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/logging.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;

// The value of the AWS SDKs.
constexpr auto renewed_before_expiry = 5min;
// The pause after a source failed or gave credentials that are about to expire.
constexpr auto look_interval = 30s;
constexpr auto wait_interval = 1s;

}  // namespace

AwsCredentialChain::AwsCredentialChain(std::vector<AwsCredentialSource> sources, std::shared_ptr<const Clock> clock)
    : sources_{std::move(sources)}, clock_{std::move(clock)} {}

bool AwsCredentialChain::is_valid(Time now) const {
  return current_ && !is_refused_ && (!current_->expiry || now < *current_->expiry);
}

Result<Credentials> AwsCredentialChain::get() {
  std::unique_lock lock{mutex_};
  const std::uint64_t looks_before = look_count_;
  for (;;) {
    const Time now = clock_->now();
    if (current_ && !is_refused_ && now < next_look_) return *current_;
    if (is_looking_ && is_valid(now)) return *current_;
    if (!is_looking_) break;
    looked_.wait_for(lock, wait_interval, [&] { return !is_looking_; });
    // Another thread has just got an answer: take it.
    if (look_count_ != looks_before && last_error_) return tl::unexpected(*last_error_);
  }
  is_looking_ = true;
  const AwsCredentialSource* found_at = nullptr;
  const AwsCredentialSource* chosen = chosen_;
  lock.unlock();
  auto found = look(chosen, found_at);
  lock.lock();
  is_looking_ = false;
  ++look_count_;
  if (found) chosen_ = found_at;
  auto taken = take(std::move(found));
  lock.unlock();
  looked_.notify_all();
  return taken;
}

// Call with the mutex locked.
Result<Credentials> AwsCredentialChain::take(Result<Credentials> found) {
  const Time now = clock_->now();
  last_error_.reset();
  if (found) {
    if (current_ && current_ != *found) former_ = *current_;
    current_ = *found;
    is_refused_ = false;
    has_warned_ = false;
    // In an outage IMDS gives expired credentials, and S3 accepts them.
    next_look_ =
        current_->expiry ? std::max<Time>(*current_->expiry - renewed_before_expiry, now + look_interval) : Time::max();
    return found;
  }
  Error error = chosen_ == nullptr ? found.error() : fail(chosen_->name, found.error()).value();
  if (error.kind == ErrorKind::not_found) error.kind = ErrorKind::unauthorized;
  if (!is_valid(now)) {
    last_error_ = error;
    return tl::unexpected(error);
  }
  next_look_ = now + look_interval;
  if (!has_warned_) {
    logging::warn("credentials are not renewed; the old ones are still valid", {{"error", error.message}});
  }
  has_warned_ = true;
  return *current_;
}

Result<Credentials> AwsCredentialChain::look(const AwsCredentialSource* chosen,
                                             const AwsCredentialSource*& found) const {
  found = chosen;
  if (chosen != nullptr) return chosen->get();
  std::string tried;
  // A guess whose error is transient, such as a timeout, may have credentials later.
  ErrorKind kind = ErrorKind::unauthorized;
  for (const AwsCredentialSource& source : sources_) {
    auto credentials = source.get();
    found = &source;
    if (credentials) return credentials;
    if (credentials.error().kind != ErrorKind::not_found && !source.is_a_guess)
      return fail(source.name, credentials.error());
    if (is_transient(credentials.error().kind)) kind = ErrorKind::unavailable;
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", source.name, credentials.error().message);
  }
  return fail(kind, fmt::format("no AWS credentials were found. {}. Name a Secret with a key in "
                                "checkpoint.credentialsSecret, or give the pod one of the others",
                                tried));
}

void AwsCredentialChain::refuse(const Credentials& credentials) {
  const std::scoped_lock lock{mutex_};
  if (current_ == credentials) is_refused_ = true;
}

Credentials AwsCredentialChain::last() const {
  const std::scoped_lock lock{mutex_};
  return current_.value_or(Credentials{});
}

std::array<Credentials, 2> AwsCredentialChain::recent() const {
  const std::scoped_lock lock{mutex_};
  return {current_.value_or(Credentials{}), former_};
}

}  // namespace trainyard::storage

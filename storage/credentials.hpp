#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.hpp"
#include "common/logging.hpp"
#include "common/result.hpp"

/// The credentials with which a store signs its requests. A store takes the first that are set up, in the order of that
/// cloud's own clients:
///   - s3:// (aws_credential_sources.hpp): the environment's key, web identity, the profile, the container's agent, the
///     instance's metadata;
///   - gs:// (google_credentials.hpp): the file that GOOGLE_APPLICATION_CREDENTIALS names, gcloud's file, the metadata
///     server;
///   - az:// (azure_credentials.hpp): a connection string, an account's key, a SAS token, a client's secret, workload
///     identity, the az tool's login, a managed identity.
/// https:// sends none, and the program of a `command:` URI finds its own. In a pod the variables and files are those
/// of the Secret that checkpoint.credentialsSecret names (add_credentials() in operator/manifest/worker_pod.hpp); the
/// identities that the cloud gives a pod or a machine need no Secret.
namespace trainyard::storage {

/// The credentials that may be sent to a server after their expiry has passed.
enum class AfterExpiry {
  nothing,
  new_ones,  ///< A credential that the issuer has just given. In an outage IMDS gives expired ones, and S3 accepts
             ///< them.
};

/// The credential of one identity, renewed before it expires. Any thread may call. One thread at a time asks the
/// issuer; meanwhile the other threads use the credential that is still valid.
///
/// Credential: has the member `std::optional<Time> expiry`, which is empty where the issuer does not say it, and
/// is_same_secret(a, b), which is true where a server cannot tell the two apart.
template <typename Credential>
class Renewed {
 public:
  using Fetch = std::function<Result<Credential>()>;

  /// `fetch` asks the issuer; it is never called by two threads at once.
  Renewed(Fetch fetch, AfterExpiry after_expiry, std::shared_ptr<const Clock> clock)
      : fetch_{std::move(fetch)}, after_expiry_{after_expiry}, clock_{std::move(clock)} {}

  /// A credential to send now. A transient error of the issuer stays transient. While renewal fails, the old credential
  /// is given as long as it is valid. Never ErrorKind::not_found, which would mean an object that does not exist.
  [[nodiscard]] Result<Credential> get();

  /// The server refuses `credential`, whatever its expiry: get() asks the issuer again.
  void refuse(const Credential& credential);

  /// The last credential and the one before, which a request in flight may still carry; empty ones where there are
  /// none. Never asks the issuer.
  [[nodiscard]] std::array<Credential, 2> recent() const;

 private:
  // Before the expiry: a credential must outlive the request that carries it. The value of the AWS SDKs.
  static constexpr std::chrono::minutes renewed_before_expiry_{5};
  // The pause after an issuer failed or gave a credential that is about to expire.
  static constexpr std::chrono::seconds fetch_interval_{30};

  // To be called with the mutex locked, as take().
  [[nodiscard]] bool is_valid(Time now) const {
    return current_ && !is_refused_ && (!current_->expiry || now < *current_->expiry);
  }
  [[nodiscard]] bool is_in_use(Time now) const {
    const bool may_be_sent = after_expiry_ == AfterExpiry::new_ones || is_valid(now);
    return current_ && !is_refused_ && may_be_sent && now < renew_at_;
  }
  [[nodiscard]] Result<Credential> take(Result<Credential> fetched);
  /// Asks the issuer, with the mutex unlocked. After an exception another thread may ask it.
  [[nodiscard]] Result<Credential> fetch_or_release();

  const Fetch fetch_;
  const AfterExpiry after_expiry_;
  const std::shared_ptr<const Clock> clock_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable fetched_;
  std::optional<Credential> current_;
  Credential former_;
  Time renew_at_{};
  bool is_refused_ = false;
  bool is_fetching_ = false;
  bool has_warned_ = false;
  std::uint64_t fetch_count_ = 0;
  std::optional<Error> last_error_;  // Error of the last fetch, if it failed.
};

template <typename Credential>
Result<Credential> Renewed<Credential>::get() {
  std::unique_lock lock{mutex_};
  const std::uint64_t fetches_before = fetch_count_;
  for (;;) {
    const Time now = clock_->now();
    if (is_in_use(now) || (is_fetching_ && is_valid(now))) return *current_;
    if (!is_fetching_) break;
    fetched_.wait(lock, [&] { return !is_fetching_; });
    // Another thread has just got an answer: take it.
    if (fetch_count_ != fetches_before && last_error_) return tl::unexpected(*last_error_);
  }
  is_fetching_ = true;
  lock.unlock();
  auto fetched = fetch_or_release();
  lock.lock();
  is_fetching_ = false;
  ++fetch_count_;
  auto taken = take(std::move(fetched));
  lock.unlock();
  fetched_.notify_all();
  return taken;
}

template <typename Credential>
Result<Credential> Renewed<Credential>::fetch_or_release() {
  try {
    return fetch_();
  } catch (...) {
    {
      const std::scoped_lock lock{mutex_};
      is_fetching_ = false;
    }
    fetched_.notify_all();
    throw;
  }
}

template <typename Credential>
Result<Credential> Renewed<Credential>::take(Result<Credential> fetched) {
  const Time now = clock_->now();
  last_error_.reset();
  if (fetched) {
    if (current_ && !is_same_secret(*current_, *fetched)) former_ = *current_;
    current_ = *fetched;
    is_refused_ = false;
    has_warned_ = false;
    renew_at_ = current_->expiry ? std::max<Time>(*current_->expiry - renewed_before_expiry_, now + fetch_interval_)
                                 : Time::max();
    return fetched;
  }
  Error error = fetched.error();
  if (error.kind == ErrorKind::not_found) error.kind = ErrorKind::unauthorized;
  if (!is_valid(now)) {
    last_error_ = error;
    return tl::unexpected(error);
  }
  renew_at_ = now + fetch_interval_;
  if (!has_warned_) {
    logging::warn("the storage's credentials are not renewed; the old ones are still valid",
                  {{"error", error.message}});
  }
  has_warned_ = true;
  return *current_;
}

template <typename Credential>
void Renewed<Credential>::refuse(const Credential& credential) {
  const std::scoped_lock lock{mutex_};
  if (current_ && is_same_secret(*current_, credential)) is_refused_ = true;
}

template <typename Credential>
std::array<Credential, 2> Renewed<Credential>::recent() const {
  const std::scoped_lock lock{mutex_};
  return {current_.value_or(Credential{}), former_};
}

/// A bearer token of OAuth 2.
struct AccessToken {
  std::string text;
  std::optional<Time> expiry;  ///< Empty when the issuer did not give it.
  bool operator==(const AccessToken&) const = default;
};

[[nodiscard]] inline bool is_same_secret(const AccessToken& one, const AccessToken& other) {
  return one.text == other.text;
}

/// The access token of one identity, renewed before it expires. Any thread may call.
class AccessTokens {
 public:
  using Fetch = Renewed<AccessToken>::Fetch;

  explicit AccessTokens(Fetch fetch, std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>())
      : renewed_{std::move(fetch), AfterExpiry::nothing, std::move(clock)} {}

  /// A token to send now. Errors as Renewed::get().
  [[nodiscard]] Result<std::string> get() {
    return renewed_.get().map([](const AccessToken& token) { return token.text; });
  }
  /// The server refuses `token`, whatever its expiry: get() asks the issuer again.
  void refuse(const std::string& token) { renewed_.refuse({.text = token, .expiry = {}}); }
  /// The last token and the one before, which a request in flight may still carry. Never asks the issuer.
  [[nodiscard]] std::array<std::string, 2> recent() const {
    const auto [last, former] = renewed_.recent();
    return {last.text, former.text};
  }

 private:
  Renewed<AccessToken> renewed_;
};

}  // namespace trainyard::storage

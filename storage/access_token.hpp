#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::storage {

/// A bearer token of OAuth 2.
struct AccessToken {
  std::string text;
  std::optional<Time> expiry;  ///< Empty when the issuer did not give it.
  bool operator==(const AccessToken&) const = default;
};

/// The access token of one identity, renewed before it expires. Any thread may call. One thread at a time asks the
/// issuer; meanwhile the other threads use the token that is still valid.
class AccessTokens {
 public:
  using Fetch = std::function<Result<AccessToken>()>;

  explicit AccessTokens(Fetch fetch, std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>());

  /// A token to send now. A transient error of the issuer stays transient. While renewal fails, the old token is given
  /// as long as it is valid. Never ErrorKind::not_found, which would mean an object that does not exist.
  [[nodiscard]] Result<std::string> get();

  /// The server refuses `token`, whatever its expiry: get() asks the issuer again.
  void refuse(const std::string& token);

  /// The last token and the one before, which a request in flight may still carry. Never asks the issuer.
  [[nodiscard]] std::array<std::string, 2> recent() const;

 private:
  [[nodiscard]] bool is_valid(Time now) const;
  [[nodiscard]] Result<std::string> take(Result<AccessToken> fetched);

  const Fetch fetch_;
  const std::shared_ptr<const Clock> clock_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable fetched_;
  std::optional<AccessToken> current_;
  std::string former_;
  Time renew_at_{};
  bool is_refused_ = false;
  bool is_fetching_ = false;
  bool has_warned_ = false;
  std::uint64_t fetch_count_ = 0;
  std::optional<Error> last_error_;  // The last fetch's, if it failed.
};

}  // namespace trainyard::storage

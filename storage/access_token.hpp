#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/renewed.hpp"

namespace trainyard::storage {

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

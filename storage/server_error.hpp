#pragma once

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// The kind of error that a status other than 2xx means, where the reply says nothing more. Pure.
[[nodiscard]] ErrorKind kind_of_status(long status);

/// The seconds of the header Retry-After, at most five minutes. Empty when it is absent or a date. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> retry_after_of(const HttpReply& reply);

/// The meaning of an error code of a cloud's server.
struct ServerMeaning {
  std::string_view code;
  ErrorKind kind;
  std::string_view advice;  ///< The last sentence of the message, which says what to do. May be empty.
};

/// The entry of `code`; nullptr where there is none.
[[nodiscard]] inline const ServerMeaning* find_meaning(std::span<const ServerMeaning> meanings, std::string_view code) {
  const auto found = std::ranges::find(meanings, code, &ServerMeaning::code);
  return found == meanings.end() ? nullptr : &*found;
}

/// `text`, from a server or a program, fit for a sentence of ours: one line of at most 300 bytes without a full stop at
/// its end. `secrets`, digests and signatures in it are replaced by "***".
[[nodiscard]] std::string sanitize_server_text(std::string text, std::initializer_list<std::string_view> secrets);
[[nodiscard]] std::string sanitize_server_text(std::string text, std::span<const std::string> secrets);

}  // namespace trainyard::storage

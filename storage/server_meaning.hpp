#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

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

}  // namespace trainyard::storage

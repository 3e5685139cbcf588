#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

/// What an error code of a cloud's server means.
struct ServerMeaning {
  std::string_view code;
  ErrorKind kind;
  std::string_view advice;  ///< What to do, as the last sentence of a message; empty: nothing to say.
};

/// The entry of `code`; nullptr where there is none.
[[nodiscard]] inline const ServerMeaning* find_meaning(std::span<const ServerMeaning> meanings, std::string_view code) {
  const auto found = std::ranges::find(meanings, code, &ServerMeaning::code);
  return found == meanings.end() ? nullptr : &*found;
}

}  // namespace trainyard::storage

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/text.hpp"

namespace trainyard::plan {

/// Bytes of a message that reaches the status. Of a longer one the end is kept, where logs say what went wrong.
inline constexpr std::size_t message_bytes_max = 1024;

/// `text` without blanks around it, at most message_bytes_max long, never cut within a UTF-8 character.
[[nodiscard]] inline std::string bounded_text(std::string_view text) {
  return keep_end(trim(text), message_bytes_max);
}

}  // namespace trainyard::plan

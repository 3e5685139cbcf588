#pragma once

#include <string>
#include <string_view>

#include "common/text.hpp"

namespace trainyard::logs {

/// `text` with U+FFFD for each byte that is no UTF-8: a reader may refuse a file for the name of one metric.
[[nodiscard]] inline std::string to_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t bytes = utf8_character_bytes(text);
    valid += bytes == 0 ? std::string_view{"\xef\xbf\xbd"} : text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return valid;
}

}  // namespace trainyard::logs

#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace trainyard::api {

/// The number of characters in `text`, which is UTF-8. Kubernetes limits texts by characters, not by bytes.
[[nodiscard]] inline std::size_t count_characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace trainyard::api

#pragma once

#include <string>
#include <string_view>

namespace trainyard::launcher {

/// `text`, or its beginning with "..." at the end, in at most `bytes_max` bytes (at least 3). Never cuts a UTF-8
/// character.
[[nodiscard]] std::string truncate(std::string_view text, std::size_t bytes_max);

}  // namespace trainyard::launcher

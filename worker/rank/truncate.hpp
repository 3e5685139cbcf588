#pragma once

#include <string>
#include <string_view>

namespace trainyard::rank {

/// Most bytes of an error's text in /status and other documents. The log has the whole text.
inline constexpr std::size_t error_bytes_max = 512;

/// `text`, or its beginning with "..." at the end, in at most `bytes_max` bytes (at least 3). Never cuts a UTF-8
/// character.
[[nodiscard]] std::string truncate(std::string_view text, std::size_t bytes_max);

}  // namespace trainyard::rank

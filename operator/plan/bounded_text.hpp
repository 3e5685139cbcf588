#pragma once

#include <string>
#include <string_view>

namespace trainyard::plan {

/// Largest size of a message in the status. Of a longer message the end is kept, since logs say there what went wrong.
inline constexpr std::size_t message_bytes_max = 1024;

/// `text` without surrounding blanks, cut to message_bytes_max between two UTF-8 characters.
[[nodiscard]] std::string bounded_text(std::string_view text);

}  // namespace trainyard::plan

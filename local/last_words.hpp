#pragma once

#include <string>
#include <string_view>

namespace trainyard::local {

/// last_words() reads only this much of a log's end.
inline constexpr std::size_t last_words_bytes_max = 16'384;

/// One line on why a program failed, from the end of its log: the exception of a Python traceback that ends the log,
/// else the last three lines. Escape sequences and control characters are removed. A line that a progress bar rewrote
/// is kept in its last form. Bytes that are not UTF-8 become '?'. At most 1024 bytes; empty if `log` has no text.
[[nodiscard]] std::string last_words(std::string_view log);

}  // namespace trainyard::local

#pragma once

#include <string>
#include <string_view>

namespace trainyard::local {

/// How much of a log's end last_words() looks at.
inline constexpr std::size_t last_words_bytes_max = 16'384;

/// Why a program failed, as the end of its log says it, on one line for people: the exception of a Python traceback
/// that ends the log, else the last three lines. Terminal escape sequences and control characters are left out; of a
/// line that a progress bar wrote over and over, only the last form is kept. Bytes that are not UTF-8 become '?'. At
/// most 1024 bytes. Empty where `log` holds no words.
[[nodiscard]] std::string last_words(std::string_view log);

}  // namespace trainyard::local

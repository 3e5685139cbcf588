#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard::kube {

/// Makes a program's message part of one of our sentences: words with one blank between them, no control characters, no
/// full stop at the end. Words of more than `word_bytes_max` bytes become "...".
[[nodiscard]] std::string on_one_line(std::string_view text, std::size_t word_bytes_max = std::string_view::npos);

}  // namespace trainyard::kube

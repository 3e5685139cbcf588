#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard::kube {

/// What a program or a file says to people, fit for a sentence of ours: its words with one blank between them, without
/// control characters and without a full stop at the end. Words of more than `word_bytes_max` bytes become "...".
[[nodiscard]] std::string on_one_line(std::string_view text, std::size_t word_bytes_max = std::string_view::npos);

}  // namespace trainyard::kube

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// The words of `words` that are nearest to the unknown `word`, in their order; several when they are equally near. The
/// distance is the number of letters that are missing, added, changed, or swapped with their neighbour. Empty when
/// every word differs in more than a third of the letters of `word`, or in more than `changes_max`.
[[nodiscard]] std::vector<std::string> nearest_words(std::string_view word, std::span<const std::string> words,
                                                     std::size_t changes_max = std::string_view::npos);
/// The first of nearest_words(), or an empty text.
[[nodiscard]] std::string nearest_word(std::string_view word, std::span<const std::string> words,
                                       std::size_t changes_max = std::string_view::npos);

}  // namespace trainyard

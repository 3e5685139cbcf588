#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// The words of `words` that were probably meant by `word`, which is none of them, in their order: several where they
/// are equally near. `word` must differ from each by at most a third of its letters and at most `changes_max` of them
/// (missing, added, changed, or swapped with their neighbours). Empty where no word is that near.
[[nodiscard]] std::vector<std::string> nearest_words(std::string_view word, std::span<const std::string> words,
                                                     std::size_t changes_max = std::string_view::npos);
/// The first of nearest_words(), or an empty text.
[[nodiscard]] std::string nearest_word(std::string_view word, std::span<const std::string> words,
                                       std::size_t changes_max = std::string_view::npos);

}  // namespace trainyard

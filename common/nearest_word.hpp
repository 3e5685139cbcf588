#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trainyard {

/// The word of `words` that was probably meant by `word`, which is none of them. `word` must differ from it by at most
/// a third of its letters and at most `changes_max` of them (missing, added, changed, or swapped with their
/// neighbours). Empty where no word is that near.
[[nodiscard]] std::string nearest_word(std::string_view word, std::span<const std::string> words,
                                       std::size_t changes_max = std::string_view::npos);

}  // namespace trainyard

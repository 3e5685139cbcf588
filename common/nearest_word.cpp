#include "common/nearest_word.hpp"

#include <algorithm>
#include <cctype>

namespace trainyard {
namespace {

constexpr std::size_t word_bytes_max = 64;  // Longer texts are no mistyped words.

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// The number of letters to add, remove, change, or swap with their neighbour to turn `left` into `right` (optimal
/// string alignment). Case is ignored.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before_last(right.size() + 1);
  std::vector<std::size_t> last(right.size() + 1);
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const bool is_equal = lower(left[i - 1]) == lower(right[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (is_equal ? 0 : 1)});
      const bool is_swapped =
          i > 1 && j > 1 && lower(left[i - 1]) == lower(right[j - 2]) && lower(left[i - 2]) == lower(right[j - 1]);
      if (is_swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[right.size()];
}

}  // namespace

std::vector<std::string> nearest_words(std::string_view word, std::span<const std::string> words,
                                       std::size_t changes_max) {
  if (word.size() > word_bytes_max) return {};
  std::vector<std::string> nearest;
  std::size_t nearest_distance = std::min(word.size() / 3, changes_max);
  for (const std::string& candidate : words) {
    if (candidate.size() > word_bytes_max) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance > nearest_distance) continue;
    if (distance < nearest_distance) nearest.clear();
    nearest.push_back(candidate);
    nearest_distance = distance;
  }
  return nearest;
}

std::string nearest_word(std::string_view word, std::span<const std::string> words, std::size_t changes_max) {
  const auto nearest = nearest_words(word, words, changes_max);
  return nearest.empty() ? std::string{} : nearest.front();
}

}  // namespace trainyard

#include "operator/kube/one_line.hpp"

#include <algorithm>

namespace trainyard::kube {

std::string on_one_line(std::string_view text, std::size_t word_bytes_max) {
  const auto is_gap = [](unsigned char c) { return c <= 0x20 || c == 0x7f; };
  while (!text.empty() && (is_gap(static_cast<unsigned char>(text.back())) || text.back() == '.'))
    text.remove_suffix(1);
  std::string line;
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if_not(at, text.end(), is_gap);
    at = std::find_if(begin, text.end(), is_gap);
    if (!line.empty()) line += ' ';
    const std::string_view word{begin, at};
    line += word.size() > word_bytes_max ? "..." : word;
  }
  return line;
}

}  // namespace trainyard::kube

#include "operator/plan/bounded_text.hpp"

namespace trainyard::plan {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::string bounded_text(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  constexpr std::string_view mark = "... ";
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
  if (text.size() <= message_bytes_max) return std::string{text};
  text.remove_prefix(text.size() - (message_bytes_max - mark.size()));
  while (!text.empty() && is_continuation(text.front())) text.remove_prefix(1);
  return std::string{mark} + std::string{text};
}

}  // namespace trainyard::plan

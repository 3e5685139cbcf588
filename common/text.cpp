#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include "common/check.hpp"

namespace trainyard {
namespace {

bool continues_a_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

std::string keep_beginning(std::string_view text, std::size_t bytes_max) {
  constexpr std::string_view mark = "...";
  check(bytes_max >= mark.size(), "keep_beginning: there is room for the mark");
  if (text.size() <= bytes_max) return std::string{text};
  std::size_t kept = bytes_max - mark.size();
  while (kept > 0 && continues_a_character(text[kept])) --kept;
  return std::string{text.substr(0, kept)} + std::string{mark};
}

std::string keep_end(std::string_view text, std::size_t bytes_max) {
  constexpr std::string_view mark = "... ";
  check(bytes_max >= mark.size(), "keep_end: there is room for the mark");
  if (text.size() <= bytes_max) return std::string{text};
  text.remove_prefix(text.size() - (bytes_max - mark.size()));
  while (!text.empty() && continues_a_character(text.front())) text.remove_prefix(1);
  return std::string{mark} + std::string{text};
}

std::size_t utf8_character_bytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t count = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < count) return 0;
  if (!std::ranges::all_of(text.substr(1, count - 1), continues_a_character)) return 0;
  // Longer than needed, half of a UTF-16 pair, or beyond the last character.
  const bool is_wrong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F) ||
                        (byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F);
  return is_wrong ? 0 : count;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, std::not_fn(continues_a_character)));
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string to_lower(std::string_view text) {
  std::string lower{text};
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 64;

constexpr std::array<std::uint8_t, 256> make_digits() {
  std::array<std::uint8_t, 256> digits{};
  for (std::uint8_t& digit : digits) digit = no_digit;
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    digits[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
  }
  return digits;
}

constexpr std::array<std::uint8_t, 256> digits = make_digits();

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t begin = 0; begin < bytes.size(); begin += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - begin);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = (bits << 8) | (i < count ? static_cast<unsigned char>(bytes[begin + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? alphabet[(bits >> (18 - 6 * i)) & 63U] : '=';
  }
  return text;
}

Result<std::string> decode_base64(std::string_view text) {
  const auto refuse = [] { return fail(ErrorKind::invalid, "it is not base64"); };
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  std::size_t count = 0;
  std::size_t padding = 0;
  for (const char character : text) {
    if (character == '\n' || character == '\r' || character == ' ') continue;
    const std::uint8_t digit = digits[static_cast<unsigned char>(character)];
    const bool is_padding = character == '=';
    if (is_padding ? ++padding > 2 : padding > 0 || digit == no_digit) return refuse();
    bits = (bits << 6) | (is_padding ? 0U : digit);
    if (++count % 4 != 0) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>((bits >> shift) & 0xffU);
  }
  if (count % 4 != 0) return refuse();
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace trainyard

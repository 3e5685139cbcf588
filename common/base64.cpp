#include "common/base64.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace trainyard {
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

#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "common/result.hpp"

namespace trainyard {

/// `text`, or its beginning with "..." behind it: at most `bytes_max` bytes (at least 3), cut before a UTF-8 character.
[[nodiscard]] std::string keep_beginning(std::string_view text, std::size_t bytes_max);
/// `text`, or its end with "... " before it: at most `bytes_max` bytes (at least 4), cut before a UTF-8 character.
[[nodiscard]] std::string keep_end(std::string_view text, std::size_t bytes_max);

/// Bytes of the UTF-8 character at the front of `text`; 0 when `text` is empty or does not begin with a valid one.
[[nodiscard]] std::size_t utf8_character_bytes(std::string_view text);
/// The number of characters in `text`, which is UTF-8. Kubernetes limits texts by characters, not by bytes.
[[nodiscard]] std::size_t count_characters(std::string_view text);

/// `text` without spaces, tabs and line ends around it.
[[nodiscard]] std::string_view trim(std::string_view text);
/// `text` with a to z for A to Z; other bytes stay.
[[nodiscard]] std::string to_lower(std::string_view text);

/// The whole of `text` as a number. Empty for other text, for a number that T cannot hold, and for a "-" where T is
/// unsigned. A "+" is no part of a number.
template <std::integral T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text, int base = 10) {
  T number = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, number, base);
  return error == std::errc{} && end == text_end ? std::optional{number} : std::nullopt;
}

/// Takes the decimal digits off the front of `text` and returns their number. Empty, with `text` as it was, when `text`
/// does not begin with a digit or T cannot hold the number.
template <std::integral T>
[[nodiscard]] std::optional<T> take_number(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number<T>(text.substr(0, digits));
  if (number) text.remove_prefix(digits);
  return number;
}

/// `bytes` in standard base64 (RFC 4648), padded and on one line.
[[nodiscard]] std::string encode_base64(std::string_view bytes);
/// The bytes of padded standard base64; line ends and spaces are skipped. ErrorKind::invalid otherwise.
[[nodiscard]] Result<std::string> decode_base64(std::string_view text);

}  // namespace trainyard

#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "common/rfc3339.hpp"

namespace trainyard::cli {

/// "20261121T100000.123": sorts by time, and needs no quoting in a shell.
inline std::string compact_time(Time time) {
  std::string text = format_rfc3339_micro(time).substr(0, 23);
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  return text;
}

/// Reads what compact_time() writes. ErrorKind::invalid for anything else.
inline Result<Time> parse_compact_time(std::string_view text) {
  constexpr std::size_t length = 19;
  if (text.size() != length) return fail(ErrorKind::invalid, fmt::format("'{}' is no time", text));
  return parse_rfc3339(fmt::format("{}-{}-{}:{}:{}Z", text.substr(0, 4), text.substr(4, 2), text.substr(6, 5),
                                   text.substr(11, 2), text.substr(13)));
}

}  // namespace trainyard::cli

#pragma once

#include <string>

#include "common/rfc3339.hpp"

namespace trainyard::cli {

/// "20261121T100000.123": sorts by time, and needs no quoting in a shell.
inline std::string compact_time(Time time) {
  std::string text = format_rfc3339_micro(time).substr(0, 23);
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  return text;
}

}  // namespace trainyard::cli

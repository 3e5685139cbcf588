#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Tables and numbers for people.
namespace trainyard::cli {

/// "0 B", "999 B", "1.5 KiB", "12.0 MiB", ...
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// `text` with '?' in place of control characters, so that text from a store cannot control the terminal.
[[nodiscard]] std::string printable(std::string_view text);

using Row = std::vector<std::string>;

/// The rows as lines. A column is as wide as its widest cell, and right-aligned where `is_right_aligned` is true; three
/// spaces separate columns. All rows must have the same length.
[[nodiscard]] std::string table(const std::vector<Row>& rows, const std::vector<bool>& is_right_aligned);

}  // namespace trainyard::cli

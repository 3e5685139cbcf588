#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// How tables and numbers are shown to a person.
namespace trainyard::cli {

/// "0 B", "999 B", "1.5 KiB", "12.0 MiB", ...: three digits or so.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// `text` with '?' for control characters: what others wrote into a store must not steer a terminal.
[[nodiscard]] std::string printable(std::string_view text);

using Row = std::vector<std::string>;

/// Lines with columns as wide as their widest cell and three spaces between; those of which `is_right_aligned` is true
/// are flush right. All rows are of one length.
[[nodiscard]] std::string table(const std::vector<Row>& rows, const std::vector<bool>& is_right_aligned);

}  // namespace trainyard::cli

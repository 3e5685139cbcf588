#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The output of commands: tables and numbers for people, JSON and YAML for programs.
namespace trainyard::cli {

/// The output format of a command.
enum class OutputFormat {
  text,  ///< For people: a table, text or CSV.
  json,
  yaml
};

/// Adds the option -o, with the values `text_name` (the default), "json" and "yaml".
void add_output(CLI::App& command, OutputFormat& format, const std::string& text_name = "table");

/// `document` in `format`, which is not OutputFormat::text, with a line end.
[[nodiscard]] std::string document_text(const nlohmann::json& document, OutputFormat format);

/// `value` as YAML in the block style of kubectl, with a line end. Text that a reader could take for another type is
/// quoted.
[[nodiscard]] std::string to_yaml(const nlohmann::json& value);

/// "0 B", "999 B", "1.5 KiB", "12.0 MiB", ...
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// `text` with '?' in place of control characters, so that text from a store cannot control the terminal.
[[nodiscard]] std::string printable(std::string_view text);

using Row = std::vector<std::string>;

/// The rows as lines. A column is as wide as its widest cell, and right-aligned where `is_right_aligned` is true; three
/// spaces separate columns. All rows must have the same length.
[[nodiscard]] std::string table(const std::vector<Row>& rows, const std::vector<bool>& is_right_aligned);

}  // namespace trainyard::cli

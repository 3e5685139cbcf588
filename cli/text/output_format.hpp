#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include <string>

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

}  // namespace trainyard::cli

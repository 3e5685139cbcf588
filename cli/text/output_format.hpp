#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard::cli {

/// How a command prints what it lists.
enum class OutputFormat {
  text,  ///< For people, in the form that the command chooses: a table, or CSV.
  json,
  yaml
};

/// Adds -o, which means the same in every command: "json", "yaml", or `text_name`, which is what is printed without it.
void add_output(CLI::App& command, OutputFormat& format, const std::string& text_name = "table");

/// `document` in `format`, which is not OutputFormat::text, with a line end behind it.
[[nodiscard]] std::string document_text(const nlohmann::json& document, OutputFormat format);

}  // namespace trainyard::cli

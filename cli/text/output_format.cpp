#include "cli/text/output_format.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/text/yaml.hpp"
#include "common/check.hpp"

namespace trainyard::cli {

void add_output(CLI::App& command, OutputFormat& format, const std::string& text_name) {
  command
      .add_option_function<std::string>(
          "-o,--output",
          [&format](const std::string& name) {
            format = name == "json" ? OutputFormat::json : name == "yaml" ? OutputFormat::yaml : OutputFormat::text;
          },
          fmt::format("Output format; json and yaml have exact numbers, for programs [{}]", text_name))
      ->check(CLI::IsMember({text_name, std::string{"json"}, std::string{"yaml"}}))
      ->type_name("FORMAT");
}

std::string document_text(const nlohmann::json& document, OutputFormat format) {
  check(format != OutputFormat::text, "a document is JSON or YAML");
  return format == OutputFormat::json ? document.dump(2) + "\n" : to_yaml(document);
}

}  // namespace trainyard::cli

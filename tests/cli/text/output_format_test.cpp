#include "cli/text/output_format.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::cli {
namespace {

OutputFormat parsed(const std::string& line, const std::string& text_name = "table") {
  CLI::App app;
  OutputFormat format = OutputFormat::text;
  add_output(app, format, text_name);
  app.parse(line);
  return format;
}

TEST(OutputFormat, IsChosenByTheOptionO) {
  EXPECT_EQ(parsed(""), OutputFormat::text);
  EXPECT_EQ(parsed("-o json"), OutputFormat::json);
  EXPECT_EQ(parsed("--output=yaml"), OutputFormat::yaml);
  EXPECT_EQ(parsed("-o table"), OutputFormat::text);
  EXPECT_EQ(parsed("-o csv", "csv"), OutputFormat::text);
}

TEST(OutputFormat, RefusesAnyOtherWord) {
  for (const std::string line : {"-o csv", "-o JSON", "-o model.pt"})
    EXPECT_THROW(parsed(line), CLI::ValidationError) << line;
}

TEST(DocumentText, IsJsonOrYamlOfTheSameDocument) {
  const nlohmann::json document = {{{"step", 10}, {"state", "complete"}}};
  EXPECT_EQ(document_text(document, OutputFormat::json),
            "[\n  {\n    \"state\": \"complete\",\n    \"step\": 10\n  }\n]\n");
  EXPECT_EQ(document_text(document, OutputFormat::yaml), "- state: complete\n  step: 10\n");
  EXPECT_EQ(document_text(nlohmann::json::array(), OutputFormat::yaml), "[]\n");
}

}  // namespace
}  // namespace trainyard::cli

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/yaml/yaml.hpp"
#include "cli/text/output.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;

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

TEST(ToYaml, LooksLikeKubectlsOutput) {
  const json value = json::parse(R"({"kind": "Pod", "metadata": {"labels": {"trainyard.dev/rank": "0"}, "name": "p"},
    "spec": {"args": ["a b", "", ["nested", {"x": 1}]], "containers": [{"command": ["sh", "-c"], "name": "worker"}], "empty": {}, "none": []}})");
  EXPECT_EQ(to_yaml(value), R"(kind: Pod
metadata:
  labels:
    trainyard.dev/rank: "0"
  name: p
spec:
  args:
  - a b
  - ""
  - - nested
    - x: 1
  containers:
  - command:
    - sh
    - "-c"
    name: worker
  empty: {}
  none: []
)");
}

TEST(ToYaml, IsReadBackToTheSameValue) {
  const std::vector<json> values{"yes",
                                 "No",
                                 "on",
                                 "null",
                                 "~",
                                 "1",
                                 "0x10",
                                 "1e3",
                                 "2026-01-01",
                                 "-",
                                 "- a",
                                 "a: b",
                                 "a #b",
                                 "#",
                                 "",
                                 " lead",
                                 "trail ",
                                 "a:",
                                 "{}",
                                 "[x]",
                                 "*a",
                                 "&a",
                                 "!t",
                                 "%",
                                 "@",
                                 "`",
                                 "'q'",
                                 "\"q\"",
                                 "tab\there",
                                 "line\nend",
                                 "two\n\nlines\n",
                                 "end\n\n",
                                 "\nfirst",
                                 "  two\nlines",
                                 "\x01",
                                 "ü",
                                 "http://x:1/y",
                                 ".inf",
                                 "true",
                                 "=",
                                 "<<",
                                 "a,b",
                                 "f(x)",
                                 5,
                                 -1.5,
                                 true,
                                 nullptr,
                                 json::array(),
                                 json::object()};
  for (const json& value : values) {
    const json object{{"key", value}, {"list", json::array({value, json{{"inner", value}}})}};
    const auto read = api::parse_yaml(to_yaml(object));
    ASSERT_TRUE(read) << to_yaml(object) << read.error().message;
    EXPECT_EQ(read->at(0), object) << to_yaml(object);
  }
}

TEST(ToYaml, WritesNumbersThatEveryVersionOfYamlReads) {
  EXPECT_EQ(to_yaml(json{1e-5, 2.5e-9, 0.5, 3, 1e20}), "- 1.0e-05\n- 2.5e-09\n- 0.5\n- 3\n- 1.0e+20\n");
}

}  // namespace
}  // namespace trainyard::cli

#include "cli/text/yaml.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/validation/yaml.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;

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

#include "api/validation/schema.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::api {
namespace {

using nlohmann::json;

json a_schema(std::string_view properties) {
  return {{"type", "object"}, {"properties", json::parse(properties)}};
}

TEST(WithSchemaDefaults, FillsInWhatIsAbsentOrNullAtEveryDepth) {
  const json schema = a_schema(R"({
      "a": {"type": "integer", "default": 1}, "b": {"type": "integer"},
      "inner": {"type": "object", "default": {}, "properties": {"c": {"type": "string", "default": "x"}}},
      "list": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "boolean", "default": true}}}},
      "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"e": {"type": "integer", "default": 5}}}}})");
  EXPECT_EQ(
      with_schema_defaults(
          schema, json::parse(R"({"a": null, "b": null, "list": [{}, {"d": false}], "map": {"k": {}, "l": null}})")),
      json::parse(R"({"a": 1, "inner": {"c": "x"}, "list": [{"d": true}, {"d": false}], "map": {"k": {"e": 5}}})"));
}

TEST(WithSchemaDefaults, LeavesGivenValuesAndUnknownFields) {
  const json schema = a_schema(
      R"({"a": {"type": "integer", "default": 1}, "n": {"type": "string", "nullable": true, "default": "x"}})");
  for (const char* text : {R"({"a": 0, "n": "y", "other": null})", R"({"a": 0, "n": null})"}) {
    EXPECT_EQ(with_schema_defaults(schema, json::parse(text)), json::parse(text)) << "null is a value where it may be";
  }
}

TEST(IsWellFormed, ChecksOnlyTypesEnumsAndRequiredFields) {
  const json schema = json::parse(R"({"type": "object", "required": ["a"], "properties": {
      "a": {"type": "integer", "maximum": 5}, "b": {"type": "string", "enum": ["x"]}, "c": {"type": "string", "maxLength": 1},
      "d": {"type": "array", "maxItems": 1, "items": {"type": "integer"}}}})");
  for (const char* good : {R"({"a": 1})", R"({"a": 9, "b": "x", "c": "long", "d": [1, 2], "e": 1})"})
    EXPECT_TRUE(is_well_formed(schema, json::parse(good))) << good;
  for (const char* bad : {"{}", R"({"a": "1"})", R"({"a": 1, "b": "y"})", R"({"a": 1, "d": ["1"]})", "[]"})
    EXPECT_FALSE(is_well_formed(schema, json::parse(bad))) << bad;
}

struct Shape {
  std::string_view properties;
  std::string_view value;
  std::vector<Violation> violations;
};
class CheckSchema : public testing::TestWithParam<Shape> {};

TEST_P(CheckSchema, NamesEachFieldThatDoesNotFit) {
  EXPECT_EQ(check_schema(a_schema(GetParam().properties), json::parse(GetParam().value), "spec"),
            GetParam().violations);
}

INSTANTIATE_TEST_SUITE_P(
    Table, CheckSchema,
    testing::Values(
        Shape{R"({"a": {"type": "integer"}})", R"({"a": 1.0})", {}},
        Shape{R"({"a": {"type": "integer"}})",
              R"({"a": 9223372036854775807, "b": 9007199254740991.0})",
              {{"spec.b", "unknown field; there are a"}}},
        Shape{R"({"a": {"type": "integer"}, "b": {"type": "integer"}})",
              R"({"a": 9223372036854775808, "b": 9007199254740992.0})",
              {{"spec.a", "must be an integer of 64 bits, got 9223372036854775808"},
               {"spec.b", "must be an integer of 64 bits, got 9.007199254740992e+15"}}},
        Shape{R"({"replicas": {"type": "integer"}})",
              R"({"replica": 1})",
              {{"spec.replica", "unknown field; did you mean replicas?"}}},
        Shape{R"({"a": {"type": "integer"}})", R"({"a": 1.5})", {{"spec.a", "must be an integer, got 1.5"}}},
        Shape{R"({"a": {"type": "number"}})", R"({"a": "1"})", {{"spec.a", R"(must be a number, got "1")"}}},
        Shape{R"({"a": {"type": "string"}})", R"({"a": true})", {{"spec.a", "must be a string, got true"}}},
        Shape{R"({"a": {"type": "boolean"}})", R"({"a": 0})", {{"spec.a", "must be true or false, got 0"}}},
        Shape{R"({"a": {"type": "array"}})", R"({"a": {}})", {{"spec.a", "must be a list, got {}"}}},
        Shape{R"({"a": {"x-kubernetes-int-or-string": true}})", R"({"a": "1Gi"})", {}},
        Shape{R"({"a": {"x-kubernetes-int-or-string": true}})",
              R"({"a": 1.5})",
              {{"spec.a", "must be an integer or a string, got 1.5"}}},
        Shape{R"({"a": {"type": "string", "enum": ["x", "y"]}})",
              R"({"a": "z"})",
              {{"spec.a", R"(must be one of x, y, got "z")"}}},
        Shape{R"({"a": {"type": "string", "enum": ["adam", "adamw", "sgd"]}})",
              R"({"a": "Adamm"})",
              {{"spec.a", R"(must be one of adam, adamw, sgd, got "Adamm"; did you mean adam or adamw?)"}}},
        Shape{R"({"a": {"x-kubernetes-int-or-string": true, "enum": [16, "16", "bf16"]}})",
              R"({"a": 17})",
              {{"spec.a", "must be one of 16, bf16, got 17"}}},
        Shape{
            R"({"a": {"type": "integer", "minimum": 1, "maximum": 3}, "b": {"type": "integer", "minimum": 1, "maximum": 3}})",
            R"({"a": 0, "b": 4})",
            {{"spec.a", "must be at least 1, got 0"}, {"spec.b", "must be at most 3, got 4"}}},
        Shape{R"({"a": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
                  "b": {"type": "number", "maximum": 1, "exclusiveMaximum": true}})",
              R"({"a": 0, "b": 1})",
              {{"spec.a", "must be more than 0, got 0"}, {"spec.b", "must be less than 1, got 1"}}},
        Shape{R"({"a": {"type": "string", "maxLength": 3}})", R"({"a": "äöü"})", {}},
        // Values at each of their bounds.
        Shape{
            R"({"a": {"type": "integer", "minimum": 1, "maximum": 3}, "b": {"type": "integer", "minimum": 1, "maximum": 3},
                  "c": {"type": "string", "minLength": 2, "maxLength": 2}, "d": {"type": "array", "maxItems": 1},
                  "e": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}},
                  "f": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1, "exclusiveMaximum": true}})",
            R"({"a": 1, "b": 3, "c": "éx", "d": [1], "e": {"x": 1}, "f": 0.001})",
            {}},
        Shape{
            R"({"a": {"type": "array", "x-kubernetes-list-map-keys": ["name", "protocol"], "items": {"type": "object",
                  "properties": {"name": {"type": "string"}, "protocol": {"type": "string"}}}}})",
            R"({"a": [{"name": "x", "protocol": "TCP"}, {"name": "x", "protocol": "UDP"}, {"name": "x", "protocol": "UDP"}]})",
            {{"spec.a[2]", R"(comes twice: {"name":"x","protocol":"UDP"})"}}},
        Shape{
            R"({"a": {"type": "string", "maxLength": 3}, "b": {"type": "string", "minLength": 2}, "c": {"type": "string", "minLength": 1}})",
            R"({"a": "abcd", "b": "a", "c": ""})",
            {{"spec.a", "must be at most 3 characters long, has 4"},
             {"spec.b", "must be at least 2 characters long"},
             {"spec.c", "must not be empty"}}},
        Shape{R"({"a": {"type": "array", "maxItems": 1, "items": {"type": "integer"}}})",
              R"({"a": [1, "x"]})",
              {{"spec.a", "must have at most 1 items, has 2"}, {"spec.a[1]", R"(must be an integer, got "x")"}}},
        Shape{R"({"a": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}})",
              R"({"a": {"k": "v", "l": 1}})",
              {{"spec.a", "must have at most 1 entries, has 2"}, {"spec.a.l", "must be a string, got 1"}}},
        Shape{R"({"a": {"type": "array", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object",
                  "required": ["name"], "properties": {"name": {"type": "string"}}}}})",
              R"({"a": [{"name": "x"}, {}, {"name": "x"}, {}]})",
              {{"spec.a[1].name", "must be given"},
               {"spec.a[3].name", "must be given"},
               {"spec.a[2]", R"(comes twice: {"name":"x"})"}}},
        Shape{
            R"({"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})", R"({"a": {"any": [1]}})", {}},
        Shape{R"({"a": {"type": "integer"}, "b": {"type": "integer"}})",
              R"({"c": 1})",
              {{"spec.c", "unknown field; there are a, b"}}}));

TEST(CheckSchema, ShowsOnlyTheBeginningOfALongValue) {
  const auto violations = check_schema({{"type", "integer"}}, std::string(1000, 'x'), "spec");
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_LT(violations[0].sentence.size(), 150U);
}

TEST(VisitValues, SeesParentsFirstAndOnlyWhatIsThere) {
  const json schema =
      a_schema(R"({"a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "integer"}}}},
                                   "absent": {"type": "object"}})");
  std::vector<std::string> paths;
  visit_values(schema, json::parse(R"({"a": [{"b": 1}, {}]})"), "spec",
               [&](const json&, const json&, const std::string& path) { paths.push_back(path); });
  EXPECT_EQ(paths, (std::vector<std::string>{"spec", "spec.a", "spec.a[0]", "spec.a[0].b", "spec.a[1]"}));
}

}  // namespace
}  // namespace trainyard::api

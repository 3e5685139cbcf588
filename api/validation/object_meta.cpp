#include "api/validation/object_meta.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "api/validation/schema.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

const json& object_meta_schema() {
  static const json schema = json::parse(R"({"type": "object", "properties": {
      "name": {"type": "string"}, "generateName": {"type": "string"}, "namespace": {"type": "string"},
      "labels": {"type": "object", "additionalProperties": {"type": "string"}},
      "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
      "finalizers": {"type": "array", "items": {"type": "string"}},
      "ownerReferences": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
      "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
      "creationTimestamp": {"type": "string"}, "deletionTimestamp": {"type": "string"},
      "deletionGracePeriodSeconds": {"type": "integer"}, "generation": {"type": "integer"},
      "resourceVersion": {"type": "string"}, "selfLink": {"type": "string"}, "uid": {"type": "string"}}})");
  return schema;
}

void check_labels(const json& labels, std::vector<Violation>& violations) {
  static const std::regex key_form{
      R"(([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)"};
  static const std::regex value_form{R"(([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?)"};
  for (const auto& [key, value] : labels.items()) {
    if (!std::regex_match(key, key_form)) {
      violations.push_back({"metadata.labels", fmt::format("'{}' is no label's name", key)});
    }
    if (!std::regex_match(value.get_ref<const std::string&>(), value_form)) {
      violations.push_back(
          {"metadata.labels", fmt::format("'{}' of {} is no label's value: at most 63 letters, digits, '-', "
                                          "'_' and '.', a letter or digit first and last",
                                          value.get_ref<const std::string&>(), key)});
    }
  }
}

}  // namespace

std::vector<Violation> check_object_meta(const json& metadata) {
  const json given = with_schema_defaults(object_meta_schema(), metadata);
  std::vector<Violation> violations = check_schema(object_meta_schema(), given, "metadata");
  if (!violations.empty()) return violations;
  if (given.value("name", "").empty() && given.value("generateName", "").empty()) {
    violations.push_back({"metadata.name", "must be given"});
  }
  if (given.contains("labels")) check_labels(given.at("labels"), violations);
  return violations;
}

}  // namespace trainyard::api

#include "api/validation/validate.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <regex>
#include <utility>

#include "api/validation/cel.hpp"
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

namespace {

using nlohmann::json;

/// Schema of the whole object, from the built-in CRD.
const json& training_job_schema() {
  static const json schema =
      json::parse(training_job_crd()).at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema");
  return schema;
}

const json& spec_schema() {
  return training_job_schema().at("properties").at("spec");
}

bool is_absent_or_empty(const json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() || *found == json("");
}

/// Adds five characters to generateName where there is no name, as the server does before it validates the name.
json with_generated_name(json object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object() || !is_absent_or_empty(*metadata, "name")) return object;
  if (is_absent_or_empty(*metadata, "generateName") || !metadata->at("generateName").is_string()) return object;
  (*metadata)["name"] = metadata->at("generateName").get<std::string>() + "xxxxx";
  return object;
}

std::vector<Violation> check_type_meta(const json& object) {
  std::vector<Violation> violations;
  const auto demand = [&](std::string_view name, std::string_view value) {
    const auto found = object.find(name);
    if (found != object.end() && *found == value) return;
    violations.push_back({std::string{name},
                          fmt::format("must be {}, got {}", value, found == object.end() ? "nothing" : found->dump())});
  };
  demand("apiVersion", "trainyard.dev/v1alpha1");
  demand("kind", "TrainingJob");
  return violations;
}

void append(std::vector<Violation>& violations, std::vector<Violation> more) {
  std::ranges::move(more, std::back_inserter(violations));
}

std::vector<Violation> check_shape(const json& object) {
  if (!object.is_object()) return {{"the object", fmt::format("must be an object with fields, got {}", object.dump())}};
  std::vector<Violation> violations = check_type_meta(object);
  append(violations, check_object_meta(object.value("metadata", json::object())));
  for (const auto& [name, unused] : object.items()) {
    const json& properties = training_job_schema().at("properties");
    if (!properties.contains(name)) violations.push_back({name, unknown_field(name, properties)});
  }
  if (!object.contains("spec") || object.at("spec").is_null()) {
    violations.push_back({"spec", "must be given"});
  } else {
    append(violations, check_schema(spec_schema(), object.at("spec"), "spec"));
  }
  return violations;
}

std::vector<Violation> check_rules(const json& schema, const json& value, const json* old_value,
                                   const std::string& path) {
  std::vector<Violation> violations;
  const auto rules = schema.find("x-kubernetes-validations");
  if (rules == schema.end()) return violations;
  for (const json& rule : *rules) {
    const auto& text = rule.at("rule").get_ref<const std::string&>();
    if (cel::is_about_changes(text) && old_value == nullptr) continue;
    const Result<bool> is_kept = cel::keeps_rule(text, value, old_value);
    if (is_kept && *is_kept) continue;
    const std::string field = path + rule.value("fieldPath", "");
    violations.push_back({field.starts_with('.') ? field.substr(1) : field,
                          is_kept ? rule.at("message").get<std::string>() : is_kept.error().message});
  }
  return violations;
}

std::vector<Violation> validate(const json& given, const json* stored) {
  if (!given.is_object() || !given.value("metadata", json::object()).is_object()) return check_shape(given);
  const json object = with_generated_name(with_defaults(given));
  std::vector<Violation> violations = check_shape(object);
  // The server evaluates rules only for objects that fit the schema. We report all violations at once, and so evaluate
  // a rule wherever its own value is well-formed.
  if (check_object_meta(object.value("metadata", json::object())).empty())
    append(violations, check_rules(training_job_schema(), object, nullptr, ""));
  if (!object.contains("spec")) return violations;
  const json old_spec = stored != nullptr ? with_defaults(*stored).at("spec") : json();
  visit_values(spec_schema(), object.at("spec"), "spec",
               [&](const json& schema, const json& value, const std::string& path) {
                 if (!is_well_formed(schema, value)) return;
                 const bool is_whole_spec = path == "spec" && stored != nullptr;
                 append(violations, check_rules(schema, value, is_whole_spec ? &old_spec : nullptr, path));
               });
  return violations;
}

/// The schema of a spec with those of its rules that read no fields but `training` and `checkpoint`.
json of_training(json spec) {
  json rules = json::array();
  for (json& rule : spec.at("x-kubernetes-validations")) {
    const auto& text = rule.at("rule").get_ref<const std::string&>();
    const bool is_theirs = std::ranges::all_of(cel::fields_of_self(text), [](const std::string& field) {
      return field == "training" || field == "checkpoint";
    });
    if (is_theirs) rules.push_back(std::move(rule));
  }
  spec["x-kubernetes-validations"] = std::move(rules);
  return spec;
}

}  // namespace

std::string to_string(const Violation& violation) {
  return violation.field.empty() ? violation.sentence : fmt::format("{}: {}", violation.field, violation.sentence);
}

json with_defaults(json object) {
  if (object.is_object() && object.contains("spec") && object.at("spec").is_object()) {
    object["spec"] = with_schema_defaults(spec_schema(), std::move(object["spec"]));
  }
  return object;
}

std::vector<Violation> validate_training_job(const json& object) {
  return validate(object, nullptr);
}

std::vector<Violation> validate_training(const json& given) {
  const json spec = with_schema_defaults(spec_schema(), given);
  std::vector<Violation> violations = check_schema(spec_schema(), spec, "spec");
  visit_values(spec_schema(), spec, "spec", [&](const json& schema, const json& value, const std::string& path) {
    if (!is_well_formed(schema, value)) return;
    append(violations, path == "spec" ? check_rules(of_training(schema), value, nullptr, path)
                                      : check_rules(schema, value, nullptr, path));
  });
  return violations;
}

std::vector<Violation> validate_status(const json& status) {
  return check_schema(training_job_schema().at("properties").at("status"), status, "status");
}

std::vector<Violation> validate_update(const json& before, const json& after) {
  return validate(after, &before);
}

}  // namespace trainyard::api

#include "cli/job_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "api/contract.hpp"
#include "api/validation/validate.hpp"
#include "api/yaml/yaml.hpp"
#include "common/nearest_word.hpp"
#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

using Names = std::vector<std::string>;
using api::Violation;
using nlohmann::json;

constexpr std::size_t violations_max = 20;  // A longer list does not help.

std::string text_at(const json& object, const char* field) {
  const auto found = object.is_object() ? object.find(field) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// True for a list of objects (kind: List, TrainingJobList), whose items kubectl creates one by one.
bool is_list(const json& object) {
  return text_at(object, "kind").ends_with("List") && object.contains("items") && object.at("items").is_array();
}

Result<std::string> read_text(const std::string& file) {
  std::ostringstream text;
  if (file == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    return fail(ErrorKind::io, fmt::format("{} is a folder, not a file", file));
  std::ifstream stream{file};
  if (!stream) return fail(ErrorKind::io, fmt::format("cannot read {}: {}", file, std::strerror(errno)));
  text << stream.rdbuf();
  return text.str();
}

constexpr std::size_t changes_max = 2;

// The fields of Kubernetes 1.36.
const Names pod_fields{"activeDeadlineSeconds",
                       "affinity",
                       "automountServiceAccountToken",
                       "containers",
                       "dnsConfig",
                       "dnsPolicy",
                       "enableServiceLinks",
                       "ephemeralContainers",
                       "hostAliases",
                       "hostIPC",
                       "hostNetwork",
                       "hostPID",
                       "hostUsers",
                       "hostname",
                       "hostnameOverride",
                       "imagePullSecrets",
                       "initContainers",
                       "nodeName",
                       "nodeSelector",
                       "os",
                       "overhead",
                       "preemptionPolicy",
                       "priority",
                       "priorityClassName",
                       "readinessGates",
                       "resourceClaims",
                       "resources",
                       "restartPolicy",
                       "runtimeClassName",
                       "schedulerName",
                       "schedulingGates",
                       "schedulingGroup",
                       "securityContext",
                       "serviceAccount",
                       "serviceAccountName",
                       "setHostnameAsFQDN",
                       "shareProcessNamespace",
                       "subdomain",
                       "terminationGracePeriodSeconds",
                       "tolerations",
                       "topologySpreadConstraints",
                       "volumes"};
const Names container_fields{"args",
                             "command",
                             "env",
                             "envFrom",
                             "image",
                             "imagePullPolicy",
                             "lifecycle",
                             "livenessProbe",
                             "name",
                             "ports",
                             "readinessProbe",
                             "resizePolicy",
                             "resources",
                             "restartPolicy",
                             "restartPolicyRules",
                             "securityContext",
                             "startupProbe",
                             "stdin",
                             "stdinOnce",
                             "terminationMessagePath",
                             "terminationMessagePolicy",
                             "tty",
                             "volumeDevices",
                             "volumeMounts",
                             "workingDir"};
const Names resources_fields{"claims", "limits", "requests"};
const Names variable_fields{"name", "value", "valueFrom"};
const Names variables_fields{"configMapRef", "prefix", "secretRef"};
const Names mount_fields{"mountPath",         "mountPropagation", "name",       "readOnly",
                         "recursiveReadOnly", "subPath",          "subPathExpr"};

void check_fields(const json& object, const Names& known, const std::string& path, std::vector<Violation>& found) {
  if (!object.is_object()) return;
  for (const auto& [name, unused] : object.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string meant = nearest_word(name, known, changes_max);
    if (!meant.empty())
      found.push_back({fmt::format("{}.{}", path, name), fmt::format("unknown field; did you mean {}?", meant)});
  }
}

/// Calls `visit` for each item of `object[field]`, with the item's path.
template <typename Visit>
void for_each_item(const json& object, const char* field, const std::string& path, const Visit& visit) {
  if (!object.is_object() || !object.contains(field) || !object.at(field).is_array()) return;
  std::size_t index = 0;
  for (const json& item : object.at(field)) visit(item, fmt::format("{}.{}[{}]", path, field, index++));
}

void check_container(const json& container, const std::string& path, std::vector<Violation>& found) {
  check_fields(container, container_fields, path, found);
  if (container.is_object() && container.contains("resources"))
    check_fields(container.at("resources"), resources_fields, path + ".resources", found);
  const auto check_items = [&](const char* field, const Names& known) {
    for_each_item(container, field, path,
                  [&](const json& item, const std::string& at) { check_fields(item, known, at, found); });
  };
  check_items("env", variable_fields);
  check_items("envFrom", variables_fields);
  check_items("volumeMounts", mount_fields);
}

}  // namespace

std::string Document::kind() const {
  return text_at(object, "kind");
}

std::string Document::name() const {
  return object.is_object() && object.contains("metadata") ? text_at(object["metadata"], "name") : "";
}

bool Document::is_ours() const {
  const std::string name = to_lower(kind());
  return name.empty() || name.starts_with("trainingjob") || name == "tj" ||
         text_at(object, "apiVersion").starts_with(contract::api_group);
}

Result<std::vector<Document>> read_documents(const std::string& file) {
  const auto text = TRY(read_text(file));
  auto objects = api::parse_yaml(text);
  if (!objects) return fail(file, objects.error());
  if (objects->empty()) return fail(ErrorKind::invalid, fmt::format("{} is empty", file));
  std::vector<Document> documents;
  std::size_t number = 0;
  for (auto& object : *objects) {
    ++number;
    if (!is_list(object)) {
      documents.push_back({.file = file, .number = number, .object = std::move(object)});
      continue;
    }
    std::size_t item = 0;
    for (auto& member : object.at("items"))
      documents.push_back({.file = file, .number = number, .item = ++item, .object = std::move(member)});
  }
  return documents;
}

std::string title_of(const Document& document) {
  const std::string kind = document.kind().empty() ? "no kind" : document.kind();
  const std::string item = document.item == 0 ? "" : fmt::format(", item {}", document.item);
  return fmt::format("{}: document {}{} ({}{}{})", document.file, document.number, item, kind,
                     document.name().empty() ? "" : " ", document.name());
}

std::vector<std::string> find_violations(const Document& document) {
  std::vector<std::string> texts;
  const std::string version = fmt::format("{}/{}", contract::api_group, contract::api_version);
  const std::string given = text_at(document.object, "apiVersion");
  if (given != version)
    texts.push_back(fmt::format("apiVersion: must be {}, got {}", version, given.empty() ? "nothing" : given));
  for (const auto& violation : api::validate_training_job(document.object)) {
    std::string text = api::to_string(violation);
    // Our text above names the right version, so the schema's text is left out.
    if (!texts.empty() && text.starts_with("apiVersion:")) continue;
    texts.push_back(std::move(text));
  }
  for (const auto& violation : mistyped_template_fields(document.object)) texts.push_back(api::to_string(violation));
  if (texts.size() > violations_max) {
    const std::size_t more = texts.size() - violations_max;
    texts.resize(violations_max);
    texts.push_back(fmt::format("and {} more", more));
  }
  return texts;
}

Result<std::vector<Document>> read_valid_jobs(const std::string& file) {
  auto documents = TRY(read_documents(file));
  std::erase_if(documents, [](const Document& document) { return !document.is_ours(); });
  if (documents.empty()) return fail(ErrorKind::invalid, fmt::format("{} holds no TrainingJob", file));
  std::string faults;
  for (auto& document : documents) {
    std::vector<std::string> violations = find_violations(document);
    if (violations.empty() && document.name().empty())
      violations.emplace_back("metadata.name: must be given, since only an API server makes names from generateName");
    for (const auto& violation : violations) faults += fmt::format("\n  {}: {}", title_of(document), violation);
    if (faults.empty()) document.object = api::with_defaults(std::move(document.object));
  }
  if (!faults.empty()) return fail(ErrorKind::invalid, fmt::format("{} is not valid:{}", file, faults));
  return documents;
}

std::vector<Violation> mistyped_template_fields(const json& job) {
  std::vector<Violation> found;
  const auto at = "/spec/template/spec"_json_pointer;
  if (!job.is_object() || !job.contains(at)) return found;
  const json& pod = job.at(at);
  const std::string path = "spec.template.spec";
  check_fields(pod, pod_fields, path, found);
  for (const char* list : {"initContainers", "containers"}) {
    for_each_item(pod, list, path, [&](const json& container, const std::string& container_path) {
      check_container(container, container_path, found);
    });
  }
  return found;
}

}  // namespace trainyard::cli

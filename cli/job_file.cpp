#include "cli/job_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "api/contract.hpp"
#include "api/validation/validate.hpp"
#include "api/validation/yaml.hpp"
#include "cli/template_fields.hpp"
#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

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

}  // namespace trainyard::cli

#include "tests/corpus/corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "api/yaml/yaml.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::corpus {
namespace {

using nlohmann::json;

json parse_document(const std::string& text, const std::string& what) {
  const auto documents = api::parse_yaml(text);
  if (!documents) throw std::runtime_error(what + ": " + documents.error().message);
  if (documents->size() != 1) throw std::runtime_error(what + ": not one document");
  return documents->front();
}

json changed(json base, const json& change) {
  base.merge_patch(change);
  return base;
}

Case read_case(const std::string& file, const json& base, const json& entry) {
  Case read{.file = file,
            .name = entry.at("name"),
            .object = changed(base, entry.value("change", json::object())),
            .before = {},
            .field = entry.value("field", ""),
            .says = entry.value("says", ""),
            .server_says = entry.value("server", entry.value("says", "")),
            .server_field = entry.value("serverField", entry.value("field", ""))};
  if (entry.contains("text")) read.object = parse_document(entry.at("text"), read.name);
  if (entry.contains("before")) read.before = changed(base, entry.at("before"));
  return read;
}

}  // namespace

std::vector<Case> load() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{paths::source("tests/corpus")}) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Case> cases;
  for (const auto& path : files) {
    std::ifstream stream{path};
    const std::string text{std::istreambuf_iterator<char>{stream}, {}};
    const json document = parse_document(text, path.string());
    for (const json& entry : document.at("cases")) {
      cases.push_back(read_case(path.filename().string(), document.at("base"), entry));
    }
  }
  return cases;
}

std::ostream& operator<<(std::ostream& out, const Case& tested) {
  return out << tested.file << ": " << tested.name;
}

}  // namespace trainyard::corpus

#include "cli/validate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/contract.hpp"
#include "cli/job_file.hpp"
#include "operator/manifest/containers.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;

/// A note on a valid job that names no image and whose model is not built in; else empty. It is no violation: the image
/// that runs may have the model.
std::string model_note(const json& job) {
  if (job.contains("/spec/training/model/uri"_json_pointer)) return "";  // The file has the model.
  const std::string model = job.value("/spec/training/model/name"_json_pointer, "");
  const json pod_template = job.value("/spec/template"_json_pointer, json::object());
  const json* worker = manifest::find_worker(pod_template);
  const bool has_own_image = worker != nullptr && !worker->value("image", "").empty();
  if (model.empty() || has_own_image ||
      std::ranges::find(contract::built_in_models, model) != contract::built_in_models.end())
    return "";
  return fmt::format(", but the model '{}' is not built in (there is: {}): name an image, or --worker, that has it",
                     model, fmt::join(contract::built_in_models, ", "));
}

}  // namespace

int validate_files(const std::vector<std::string>& files, std::ostream& out, std::ostream& error) {
  bool is_good = true;
  bool has_checked = false;
  for (const auto& file : files) {
    const auto documents = read_documents(file);
    if (!documents) {
      error << "error: " << documents.error().message << '\n';
      is_good = false;
      continue;
    }
    for (const auto& document : *documents) {
      if (!document.is_ours()) {
        out << title_of(document) << ": not checked, since it is no TrainingJob\n";
        continue;
      }
      has_checked = true;
      const auto violations = find_violations(document);
      for (const auto& violation : violations) out << title_of(document) << ": " << violation << '\n';
      if (violations.empty()) out << title_of(document) << ": valid" << model_note(document.object) << '\n';
      is_good &= violations.empty();
    }
  }
  if (is_good && !has_checked) {
    error << "error: there is no TrainingJob to check\n";
    return 1;
  }
  return is_good ? 0 : 1;
}

}  // namespace trainyard::cli

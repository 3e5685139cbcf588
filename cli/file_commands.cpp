#include "cli/file_commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/contract.hpp"
#include "api/training_job.hpp"
#include "cli/job_file.hpp"
#include "cli/text/output.hpp"
#include "common/try.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/objects.hpp"

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
  return fmt::format("the model '{}' is not built in (there is: {}): name an image, or --worker, that has it", model,
                     fmt::join(contract::built_in_models, ", "));
}

/// The lines that say what a check of `document` has found.
std::string result_text(const Document& document, const std::vector<std::string>& violations) {
  if (!document.is_ours()) return title_of(document) + ": not checked, since it is no TrainingJob\n";
  const std::string note = violations.empty() ? model_note(document.object) : "";
  if (violations.empty()) return fmt::format("{}: valid{}{}\n", title_of(document), note.empty() ? "" : ", but ", note);
  std::string text;
  for (const auto& violation : violations) text += fmt::format("{}: {}\n", title_of(document), violation);
  return text;
}

/// As result_text(), for programs.
json result_object(const Document& document, const std::vector<std::string>& violations) {
  json object{{"file", document.file},   {"document", document.number},
              {"kind", document.kind()}, {"name", document.name()},
              {"valid", nullptr},        {"violations", violations}};
  if (document.item != 0) object["item"] = document.item;
  if (document.is_ours()) object["valid"] = violations.empty();
  const std::string note = document.is_ours() && violations.empty() ? model_note(document.object) : "";
  if (!note.empty()) object["note"] = note;
  return object;
}

Result<std::string> render(Document document, const RenderOptions& options) {
  json& metadata = document.object["metadata"];
  metadata["uid"] = "00000000-0000-0000-0000-000000000000";
  metadata.emplace("namespace", options.name_space);
  auto job = TRY(api::parse_training_job(document.object));
  const manifest::Settings settings{.worker_image_cpu = options.worker_image,
                                    .worker_image_cuda = options.worker_image};
  if (const std::string fault = manifest::template_fault(job.spec, settings); !fault.empty())
    return fail(ErrorKind::invalid, fault);
  job.status.attempt = 1;
  job.status.replicas.desired = job.spec.replicas;
  if (manifest::needs_worker_image(job.spec)) job.status.worker_image = options.worker_image;

  json service = manifest::build_service(job);
  // The operator lets it select the pods once all of them are there, and here all of them are.
  service["spec"]["selector"] = manifest::pod_selector(job, job.status.attempt);
  std::string text = "---\n" + to_yaml(service);
  for (std::int64_t index = 0; index < job.spec.replicas; ++index) {
    text += "---\n" + to_yaml(manifest::build_pod(job, index, manifest::kubernetes_traits(), settings));
  }
  return text;
}

}  // namespace

int validate_files(const ValidateOptions& options, std::ostream& out, std::ostream& error) {
  bool is_good = true;
  bool has_checked = false;
  json checked = json::array();
  for (const auto& file : options.files) {
    const auto documents = read_documents(file);
    if (!documents) {
      error << "error: " << documents.error().message << '\n';
      is_good = false;
      continue;
    }
    for (const auto& document : *documents) {
      const auto violations = document.is_ours() ? find_violations(document) : std::vector<std::string>{};
      has_checked |= document.is_ours();
      is_good &= violations.empty();
      if (options.format == OutputFormat::text) {
        out << result_text(document, violations);
      } else {
        checked.push_back(result_object(document, violations));
      }
    }
  }
  if (options.format != OutputFormat::text) out << document_text(checked, options.format);
  if (is_good && !has_checked) {
    error << "error: there is no TrainingJob to check\n";
    return 1;
  }
  return is_good ? 0 : 1;
}

int render_file(const RenderOptions& options, std::ostream& out, std::ostream& error) {
  const auto jobs = read_valid_jobs(options.file);
  if (!jobs) {
    error << "error: " << jobs.error().message << '\n';
    return 1;
  }
  for (const auto& job : *jobs) {
    const auto text = render(job, options);
    if (!text) {
      error << "error: " << title_of(job) << ": " << text.error().message << '\n';
      return 1;
    }
    out << *text;
  }
  return 0;
}

}  // namespace trainyard::cli

#include "local/admission.hpp"

#include <fmt/format.h>

#include "api/validation/validate.hpp"

namespace trainyard::local {
namespace {

/// One message for several violations, as an API server writes it: `TrainingJob.trainyard.dev "x" is invalid: [spec.a:
/// must be ..., spec.b: ...]`.
std::string sentence(const json& job, const std::vector<api::Violation>& violations) {
  std::string list;
  for (const auto& violation : violations) list += (list.empty() ? "" : ", ") + api::to_string(violation);
  return fmt::format(fmt::runtime(violations.size() == 1 ? "TrainingJob.trainyard.dev \"{}\" is invalid: {}"
                                                         : "TrainingJob.trainyard.dev \"{}\" is invalid: [{}]"),
                     job.at("metadata").value("name", ""), list);
}

}  // namespace

Admission training_job_admission() {
  return [](const kube::ResourceType& type, const json& object, const json* stored, bool) -> Result<json> {
    if (type != kube::training_jobs) return object;
    const json status = object.value("status", json::object());
    if (stored != nullptr && status != stored->value("status", json::object())) {
      if (const auto violations = api::validate_status(status); !violations.empty()) {
        return fail(ErrorKind::invalid, sentence(object, violations));
      }
    }
    // Metadata has no schema.
    if (stored != nullptr && object.value("spec", json{}) == stored->value("spec", json{})) return object;
    const auto violations =
        stored == nullptr ? api::validate_training_job(object) : api::validate_update(*stored, object);
    if (!violations.empty()) return fail(ErrorKind::invalid, sentence(object, violations));
    return api::with_defaults(object);
  };
}

}  // namespace trainyard::local

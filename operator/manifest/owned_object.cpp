#include "operator/manifest/owned_object.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/contract.hpp"

namespace trainyard::manifest {

api::OwnerReference owner_reference(const api::TrainingJob& job) {
  return {.api_version = fmt::format("{}/{}", contract::api_group, contract::api_version),
          .kind = "TrainingJob",
          .name = job.metadata.name,
          .uid = job.metadata.uid,
          .is_controller = true};
}

nlohmann::json owned_metadata(const api::TrainingJob& job, const std::string& name) {
  const api::OwnerReference owner = owner_reference(job);
  return {{"name", name},
          {"namespace", job.metadata.name_space},
          {"labels", {{contract::label_job, job.metadata.name}}},
          {"ownerReferences",
           {{{"apiVersion", owner.api_version},
             {"kind", owner.kind},
             {"name", owner.name},
             {"uid", owner.uid},
             {"controller", owner.is_controller}}}}};
}

}  // namespace trainyard::manifest

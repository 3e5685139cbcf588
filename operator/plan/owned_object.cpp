#include "operator/plan/owned_object.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/contract.hpp"

namespace trainyard::plan {

nlohmann::json owned_metadata(const resource::TrainingJob& job, const std::string& name) {
  return {{"name", name},
          {"namespace", job.metadata.name_space},
          {"labels", {{contract::label_job, job.metadata.name}}},
          {"ownerReferences",
           {{{"apiVersion", fmt::format("{}/{}", contract::api_group, contract::api_version)},
             {"kind", "TrainingJob"},
             {"name", job.metadata.name},
             {"uid", job.metadata.uid},
             {"controller", true}}}}};
}

}  // namespace trainyard::plan

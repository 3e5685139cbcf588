#include "operator/manifest/service.hpp"

#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::manifest {

nlohmann::json build_service(const api::TrainingJob& job) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", owned_metadata(job, service_name(job))},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", {{contract::label_job, job.metadata.name}}},
            {"ports",
             {{{"name", "master"}, {"port", contract::default_master_port}},
              {{"name", "status"}, {"port", contract::default_status_port}}}}}}};
}

}  // namespace trainyard::manifest

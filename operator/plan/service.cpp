#include "operator/plan/service.hpp"

#include <nlohmann/json.hpp>

#include "common/contract.hpp"
#include "operator/plan/names.hpp"
#include "operator/plan/owned_object.hpp"

namespace trainyard::plan {

nlohmann::json build_service(const resource::TrainingJob& job) {
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

}  // namespace trainyard::plan

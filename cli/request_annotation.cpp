#include "cli/request_annotation.hpp"

#include "operator/plan/checkpoint_request.hpp"

namespace trainyard::cli {

Result<void> annotate_request(kube::Api& api, const std::string& name_space, const std::string& job,
                              const std::string& id) {
  const kube::json annotation{{std::string{plan::checkpoint_request_annotation}, id}};
  return api
      .patch(kube::training_jobs, name_space, job, kube::PatchType::merge,
             {{"metadata", {{"annotations", annotation}}}})
      .map([](const kube::json&) {});
}

}  // namespace trainyard::cli

#pragma once

#include <string>
#include <vector>

namespace trainyard::plan {

/// What the operator was installed with.
struct Settings {
  std::string worker_image_cpu;   ///< For jobs that name no container and use no GPU. Empty: such a job is refused.
  std::string worker_image_cuda;  ///< The same for jobs with GPUs.
  std::vector<std::string> image_pull_secrets;  ///< For pods that run one of these images.
};

}  // namespace trainyard::plan

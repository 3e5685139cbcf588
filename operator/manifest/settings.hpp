#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trainyard::manifest {

/// The side that chooses the user and group ids of a pod whose template names none.
enum class UserIds {
  fixed,    ///< The operator: 65532.
  cluster,  ///< The cluster, as OpenShift's restricted-v2 does with those of the namespace; the pod names none.
  process,  ///< Nobody: pods are processes of this machine's user (`trainyard run`).
};

/// What the operator was installed with.
struct Settings {
  std::string worker_image_cpu;   ///< For jobs that name no container and use no GPU. Empty: such a job is refused.
  std::string worker_image_cuda;  ///< The same for jobs with GPUs.
  std::vector<std::string> image_pull_secrets;  ///< For pods that run one of these images.
  UserIds user_ids = UserIds::fixed;
  /// What pods' tokens are made of (request_token.hpp), a secret of this process. Empty: pods get none.
  std::string request_key;
  /// A status in which nothing is new but how far the training is, is written no more often than this. News are written
  /// at once.
  std::chrono::milliseconds progress_interval{10'000};
};

}  // namespace trainyard::manifest

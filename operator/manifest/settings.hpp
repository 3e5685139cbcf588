#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trainyard::manifest {

/// The side that chooses the user and group ids of a pod whose template names none.
enum class UserIds {
  fixed,    ///< The operator: 65532.
  cluster,  ///< The cluster, as OpenShift's restricted-v2 does by the namespace; the pod names none.
  process,  ///< Nobody: pods are processes of this machine's user (`trainyard run`).
};

/// The operator's settings for the pods that it makes.
struct Settings {
  std::string worker_image_cpu;   ///< For jobs without an image and without GPUs. Empty: such a job is refused.
  std::string worker_image_cuda;  ///< For jobs without an image and with GPUs. Empty: such a job is refused.
  std::vector<std::string> image_pull_secrets;  ///< For pods that run one of these images.
  UserIds user_ids = UserIds::fixed;
  /// The secret key of this process from which the tokens of pods are made (request_token.hpp). Empty: pods get no
  /// token.
  std::string request_key;
  /// Least time between two writes of a status that differ only in the training's progress. Any other change is written
  /// at once.
  std::chrono::milliseconds progress_interval{10'000};
};

}  // namespace trainyard::manifest

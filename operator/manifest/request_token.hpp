#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/training_job.hpp"

namespace trainyard::manifest {

/// True when the job's worker accepts requests for a checkpoint: it is the built-in worker, and spec.checkpoint is set.
[[nodiscard]] bool takes_requests(const api::TrainingJobSpec& spec);

/// 32 random bytes for Settings::request_key. A process makes them at its start and never stores them.
[[nodiscard]] std::string make_request_key();

/// The token by which the pod of `pod_index` in the current attempt knows the operator: 32 hexadecimal digits that
/// nobody can compute without `key`. A later leader has another key, and reads the token from the pod.
[[nodiscard]] std::string request_token(std::string_view key, const api::TrainingJob& job, std::int64_t pod_index);

}  // namespace trainyard::manifest

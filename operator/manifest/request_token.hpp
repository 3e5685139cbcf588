#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/training_job.hpp"

namespace trainyard::manifest {

/// Whether the job's worker can be asked for a checkpoint at any time: it is ours, and has somewhere to save to.
[[nodiscard]] bool takes_requests(const api::TrainingJobSpec& spec);

/// By which the pod of `rank` in the attempt that `job.status` records knows the operator: 32 hexadecimal digits that
/// nobody can tell without `key`. Whoever leads later has another key and reads the token from the pod.
[[nodiscard]] std::string request_token(std::string_view key, const api::TrainingJob& job, std::int64_t rank);

}  // namespace trainyard::manifest

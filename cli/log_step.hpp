#pragma once

#include <cstdint>
#include <optional>

#include "api/training_job.hpp"

namespace trainyard::cli {

enum class LogStep { print, wait, end };

/// What `trainyard logs` does next when it has printed the attempts up to `printed` (0: none): the attempt `wanted`, or
/// of a job that is followed one attempt after the other, until the job comes to rest.
[[nodiscard]] LogStep next_log_step(const api::TrainingJobStatus& status, std::optional<std::int64_t> wanted,
                                    std::int64_t printed, bool is_following);

/// Whether a job in this phase starts no rank by itself any more.
[[nodiscard]] bool is_at_rest(api::Phase phase);

}  // namespace trainyard::cli

#pragma once

#include <string_view>

#include "api/training_job.hpp"

namespace trainyard::plan {

/// The status to write instead of `wanted`, which the API server has refused with the message `refusal`; `stored` is
/// the server's status. Equal refusals give equal results, so that nothing is written twice.
///
/// Keeps the decisions of `wanted` (phase, attempt, counters, budgets, ends), drops texts and measurements of workers
/// and of the cluster, and raises condition StatusRefused.
[[nodiscard]] api::TrainingJobStatus status_despite_refusal(const api::TrainingJobStatus& wanted,
                                                            const api::TrainingJobStatus& stored,
                                                            std::string_view refusal, Time now);

}  // namespace trainyard::plan

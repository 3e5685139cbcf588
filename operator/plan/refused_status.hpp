#pragma once

#include <string_view>

#include "api/training_job.hpp"

namespace trainyard::plan {

/// The status to write instead of `wanted`, which the API server has refused with the message `refusal`: the decisions
/// of `wanted` (phase, attempt, counters, budgets, ends) without the texts and measurements that come from workers or
/// from the cluster, and with condition StatusRefused. `stored` is the status that the server has. Equal refusals give
/// equal results, so that nothing is written twice.
[[nodiscard]] api::TrainingJobStatus status_despite_refusal(const api::TrainingJobStatus& wanted,
                                                            const api::TrainingJobStatus& stored,
                                                            std::string_view refusal, Time now);

}  // namespace trainyard::plan

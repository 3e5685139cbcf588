#pragma once

#include <string_view>

#include "operator/resource/training_job.hpp"

namespace trainyard::plan {

/// What is written instead of `wanted`, which the API server has refused with the sentence `refusal`: the decisions of
/// `wanted` (phase, attempt, counters, budgets, ends) without texts and measurements that others had a part in, and
/// condition StatusRefused. `stored` is the status that the server has. Equal refusals give equal results, so that
/// nothing is written twice.
[[nodiscard]] resource::TrainingJobStatus status_despite_refusal(const resource::TrainingJobStatus& wanted,
                                                                 const resource::TrainingJobStatus& stored,
                                                                 std::string_view refusal, Time now);

}  // namespace trainyard::plan

#pragma once

#include <chrono>
#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// How long rank 0 may leave a request to save before suspending untaken.
inline constexpr std::chrono::seconds suspend_answer_max{5};

/// `spec.suspend`: whether the job begins to be suspended, is so now that no pod runs, or resumes. Suspending costs no
/// budget; resuming begins a new attempt. Ranks that train and can save are asked for a checkpoint first
/// (spec.checkpoint.onSuspend), which `status.suspend_request` records.
[[nodiscard]] bool decide_suspension(const Observed& observed, const std::vector<Member>& members, Time now,
                                     Draft& draft);

/// How long the pods of a job that is being suspended are still left to save and end by themselves; 0: they are
/// deleted.
[[nodiscard]] std::chrono::milliseconds time_left_to_save(const api::TrainingJobStatus& status,
                                                          const Observed& observed, const std::vector<Member>& members,
                                                          Time now);

}  // namespace trainyard::plan

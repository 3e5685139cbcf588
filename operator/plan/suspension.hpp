#pragma once

#include <chrono>
#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// How long rank 0 may take to accept the request to save before the suspension.
inline constexpr std::chrono::seconds suspend_answer_max{5};

/// Applies `spec.suspend`: begins the suspension, completes it once no pod runs, or resumes the job with a new attempt.
/// Suspending costs no budget. Ranks that train and can save are first asked for a checkpoint
/// (spec.checkpoint.onSuspend), which `status.suspend_request` records.
[[nodiscard]] bool decide_suspension(const Observed& observed, const std::vector<Member>& members, Time now,
                                     Draft& draft);

/// Time that the pods of a job that is being suspended still have to save and end by themselves; 0: they are deleted
/// now.
[[nodiscard]] std::chrono::milliseconds time_left_to_save(const api::TrainingJobStatus& status,
                                                          const Observed& observed, const std::vector<Member>& members,
                                                          Time now);

}  // namespace trainyard::plan

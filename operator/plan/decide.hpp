#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// True when something has happened that changes the job's course: the job or its attempt has ended, or its spec was
/// suspended, resumed or edited. `draft` then holds the new status and its events, and the plan does nothing else until
/// that status is stored. The first that applies decides: success, suspension, deadline, invalid template, lost rank
/// (restart.hpp), edit, avoided nodes that are tried again, the first attempt.
[[nodiscard]] bool decide(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft);

/// Time left until the job has been active for `spec.activeDeadlineSeconds` since its start or its last resume; 0 when
/// that time is over. Empty when there is no deadline, or while the job is being suspended or is suspended.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_deadline(const api::TrainingJob& job, Time now);

/// Handles a spec that was changed since the attempt began. If the group is still forming, a new attempt begins,
/// uncharged. If the group runs, the change waits for the next attempt (condition SpecPending). A change that reaches
/// no pod applies at once. Returns as decide().
[[nodiscard]] bool decide_edit(const Observed& observed, Time now, Draft& draft);

}  // namespace trainyard::plan

#pragma once

#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// If a member of the current attempt is lost, begins the next attempt, or fails the job when a restart cannot help or
/// no restart is left. cause.hpp finds the culprit, and restart_budget.hpp says whether a restart is left.
[[nodiscard]] bool decide_lost_rank(const Observed& observed, const std::vector<Member>& members, Time now,
                                    Draft& draft);

}  // namespace trainyard::plan

#pragma once

#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// Whether a member of the running attempt is lost: the next attempt begins, or the job fails because a restart cannot
/// help or is not allowed any more.
[[nodiscard]] bool decide_lost_rank(const Observed& observed, const std::vector<Member>& members, Time now,
                                    Draft& draft);

}  // namespace trainyard::plan

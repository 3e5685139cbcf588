#pragma once

#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// What is still to be done for the job to be as its stored status says.
void plan_actions(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft);

}  // namespace trainyard::plan

#pragma once

#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// Adds to `draft` the actions that make the job's objects what its stored status says.
void plan_actions(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft);

}  // namespace trainyard::plan

#pragma once

#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// Counts the members of the current attempt in `status.replicas`.
void count_members(const std::vector<Member>& members, api::TrainingJobStatus& status);

/// Updates the parts of the status that describe and decide nothing: whether the attempt is formed, phase, reason and
/// message.
void update_phase(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft);

}  // namespace trainyard::plan

#pragma once

#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// Counts the members of the current attempt in `status.replicas`.
void count_members(const std::vector<Member>& members, api::TrainingJobStatus& status);

/// Updates the fields of the status that follow from the members without a decision: whether the attempt is formed,
/// phase, reason, message, the count of ready pods, the start time and the condition NameConflict. Later plans read
/// these fields in their decisions.
void update_phase(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft);

}  // namespace trainyard::plan

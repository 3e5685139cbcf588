#pragma once

#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// What the members of the current attempt do, into `status.replicas`.
void count_members(const std::vector<Member>& members, api::TrainingJobStatus& status);

/// Brings the parts of the status up to date that only describe: whether the attempt is formed, phase
/// and reason.
void refresh_status(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft);

}  // namespace trainyard::plan

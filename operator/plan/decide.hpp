#pragma once

#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// Whether something has happened that moves the job on: the end of the job or of its attempt, suspend or resume, an
/// edit. If so `draft` holds the new status and the events that tell of it, and nothing else is to be done before that
/// is stored.
[[nodiscard]] bool decide(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft);

}  // namespace trainyard::plan

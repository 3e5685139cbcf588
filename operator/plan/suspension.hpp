#pragma once

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

/// `spec.suspend`: whether the job begins to be suspended, is so now that no pod runs, or resumes. Suspending costs no
/// budget; resuming begins a new attempt.
[[nodiscard]] bool decide_suspension(const Observed& observed, Time now, Draft& draft);

}  // namespace trainyard::plan

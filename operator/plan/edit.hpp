#pragma once

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

/// Handles a spec that was changed since the attempt began. If the group is still forming, a new attempt begins,
/// uncharged. If the group runs, the change waits for the next attempt (condition SpecPending). A change that reaches
/// no pod applies at once.
[[nodiscard]] bool decide_edit(const Observed& observed, Time now, Draft& draft);

}  // namespace trainyard::plan

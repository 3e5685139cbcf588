#pragma once

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

/// A spec that was changed since the attempt began. While the group forms it begins anew, uncharged; while it runs the
/// change waits (condition SpecPending); what reaches no pod holds at once.
[[nodiscard]] bool decide_edit(const Observed& observed, Time now, Draft& draft);

}  // namespace trainyard::plan

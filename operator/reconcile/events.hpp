#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"
#include "operator/plan/plan.hpp"

namespace trainyard::reconcile {

/// A v1 Event about `job`. Its name is a function of the job's UID and the reason, so that a job never has two of a
/// kind.
[[nodiscard]] nlohmann::json build_event(const api::TrainingJob& job, const plan::Event& event,
                                         const std::string& instance, Time now);

/// Tells the user. Where there is an event of this reason already, it says from now on what happened last.
[[nodiscard]] Result<void> record_event(kube::Api& api, const api::TrainingJob& job, const plan::Event& event,
                                        const std::string& instance, Time now);

}  // namespace trainyard::reconcile

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"
#include "operator/plan/plan.hpp"

namespace trainyard::reconcile {

/// A v1 Event about `job`. Its name is a function of the job's UID and the reason, so that a job never has two events
/// of one reason.
[[nodiscard]] nlohmann::json build_event(const api::TrainingJob& job, const plan::Event& event,
                                         const std::string& instance, Time now);

/// Creates the event. If the job already has an event of this reason, replaces its note, time and count.
[[nodiscard]] Result<void> record_event(kube::Api& api, const api::TrainingJob& job, const plan::Event& event,
                                        const std::string& instance, Time now);

}  // namespace trainyard::reconcile

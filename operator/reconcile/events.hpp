#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"
#include "operator/plan/plan.hpp"

namespace trainyard::reconcile {

/// An events.k8s.io/v1 Event about `job`. Its name is a function of the job's UID and the reason, so that a job never
/// has two of a kind.
[[nodiscard]] nlohmann::json build_event(const resource::TrainingJob& job, const plan::Event& event,
                                         const std::string& instance, Time now);

/// Tells the user. An event that happened before becomes one more of its series.
[[nodiscard]] Result<void> record_event(kube::Api& api, const resource::TrainingJob& job, const plan::Event& event,
                                        const std::string& instance, Time now);

}  // namespace trainyard::reconcile

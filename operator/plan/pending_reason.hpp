#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Why a job waits. `reason` is one of: Unschedulable, ClaimMissing, ClaimPending, SchedulingGated, ImagePull,
/// SecretMissing, ConfigMapMissing, VolumeMount, ContainerConfig, ContainerCreating, QuotaExceeded, AdmissionRefused,
/// NameConflict, ApiUnavailable.
struct PendingReason {
  std::string reason;
  std::string message;  ///< Names the rank where one pod waits, and what there is to do where the message of the
                        ///< cluster does not say it.
  bool operator==(const PendingReason&) const = default;
};

/// What holds up a pod whose worker has not started; empty where it starts as it should.
[[nodiscard]] std::optional<PendingReason> pending_reason_of(const Observed& observed, const resource::Pod& pod,
                                                             Time now);

/// Of the lowest rank that is held up by something; empty where all start as they should. A container that has been
/// creating for less than 30 s is starting.
[[nodiscard]] std::optional<PendingReason> find_pending_reason(const Observed& observed,
                                                               const std::vector<Member>& members, Time now);

/// How soon a container that is still being created will count as held up, though nothing changes until then.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_pending(const std::vector<Member>& members, Time now);

/// What a create was refused for (ErrorKind::forbidden).
[[nodiscard]] PendingReason refusal_reason(const Refusal& refusal);

}  // namespace trainyard::plan

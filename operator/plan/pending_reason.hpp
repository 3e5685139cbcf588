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
/// NameConflict, ApiUnavailable. The last two, of objects that were never created, come from operator/plan/phase.cpp,
/// ApiUnavailable after creates have failed for 5 s. An attempt that has been Running is never Pending again.
struct PendingReason {
  std::string reason;
  std::string message;  ///< Names the rank where one pod waits, and what there is to do where the message of the
                        ///< cluster does not say it.
  bool operator==(const PendingReason&) const = default;
};

/// Why a pod's worker has not started; empty if it starts as it should.
[[nodiscard]] std::optional<PendingReason> pending_reason_of(const Observed& observed, const resource::Pod& pod,
                                                             Time now);

/// The reason of the lowest rank that is held up; empty if all start as they should. A container in creation is held up
/// at once if its kubelet reports a failed mount, else 30 s after its pod was created. The scheduler's and the
/// kubelet's own reasons for the other words are in pending_reason.cpp.
[[nodiscard]] std::optional<PendingReason> find_pending_reason(const Observed& observed,
                                                               const std::vector<Member>& members, Time now);

/// Time until the first container in creation is held up, if nothing changes until then; empty if there is none.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_pending(const std::vector<Member>& members, Time now);

/// Why a create was refused (ErrorKind::forbidden).
[[nodiscard]] PendingReason refusal_reason(const Refusal& refusal);

}  // namespace trainyard::plan

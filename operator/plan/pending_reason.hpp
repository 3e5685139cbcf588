#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Why a job is Pending: what its pods wait for, or why they cannot be created. `reason` is one of: Unschedulable,
/// ClaimMissing, ClaimPending, SchedulingGated, ImagePull, SecretMissing, ConfigMapMissing, VolumeMount,
/// ContainerConfig, ContainerCreating, QuotaExceeded, AdmissionRefused, NameConflict, ApiUnavailable. The last four are
/// about objects that could not be created: update_phase() (phase.hpp) looks for them first, and then for what pods
/// say. NameConflict: somebody else's object has a name that the job needs. ApiUnavailable: creates have failed for
/// 5 s. Before its first attempt a job is Pending also without a reason. While an attempt starts, a job without a
/// reason is Starting if the attempt is the first one or follows a suspension or an edit of the spec, and Restarting
/// otherwise. An attempt that has been Running is never Pending again.
struct PendingReason {
  std::string reason;
  std::string message;  ///< Names the pod where one waits, and what there is to do where the message of the
                        ///< cluster does not say it.
  bool operator==(const PendingReason&) const = default;
};

/// Why a pod's worker has not started; empty if it starts as it should.
[[nodiscard]] std::optional<PendingReason> pending_reason_of(const Observed& observed, const resource::Pod& pod,
                                                             Time now);

/// The reason of the pod with the lowest index that has one; empty if all start as they should. Each reason counts at
/// once, except ContainerCreating, which counts 30 s after the pod was created.
///
/// Where the scheduler has found no place: ClaimMissing if its message says that a PersistentVolumeClaim is not found,
/// ClaimPending if one is not bound, SchedulingGated if the pod has a scheduling gate, else Unschedulable. An image
/// that cannot be pulled gives ImagePull, a volume that cannot be mounted VolumeMount, and any other error in the
/// making of a container ContainerConfig; where the kubelet says that a Secret or a ConfigMap was not found,
/// SecretMissing or ConfigMapMissing.
[[nodiscard]] std::optional<PendingReason> find_pending_reason(const Observed& observed,
                                                               const std::vector<Member>& members, Time now);

/// The time after which the first container in creation will count as ContainerCreating; empty if there is none.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_pending(const std::vector<Member>& members, Time now);

/// Why a create was refused (ErrorKind::forbidden): QuotaExceeded where the server's message says so, else
/// AdmissionRefused.
[[nodiscard]] PendingReason refusal_reason(const Refusal& refusal);

}  // namespace trainyard::plan

#include "operator/plan/pending_reason.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace trainyard::plan {
namespace {

constexpr std::chrono::seconds creating_max{30};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<PendingReason> scheduling_reason(const resource::Pod& pod) {
  const auto scheduled = std::ranges::find(pod.conditions, "PodScheduled", &resource::PodCondition::type);
  if (scheduled == pod.conditions.end() || scheduled->is_true) return std::nullopt;
  const std::string& message = scheduled->message;
  if (scheduled->reason == "SchedulingGated") return PendingReason{"SchedulingGated", message};
  if (scheduled->reason != "Unschedulable") return std::nullopt;
  if (contains(message, "persistentvolumeclaim") && contains(message, "not found"))
    return PendingReason{"ClaimMissing", message};
  if (contains(message, "unbound immediate PersistentVolumeClaim")) return PendingReason{"ClaimPending", message};
  return PendingReason{"Unschedulable", message};
}

/// Reads messages of the kubelet such as `secret "s3-credentials" not found`.
std::optional<PendingReason> missing_object_reason(const std::string& message) {
  if (!contains(message, "not found")) return std::nullopt;
  if (contains(message, "secret")) return PendingReason{"SecretMissing", message};
  if (contains(message, "configmap")) return PendingReason{"ConfigMapMissing", message};
  return std::nullopt;
}

std::optional<PendingReason> container_reason(const resource::ContainerStatus& container) {
  constexpr std::array pull_reasons{"ImagePullBackOff",  "ErrImagePull",        "InvalidImageName",
                                    "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError"};
  const std::string& reason = container.waiting_reason;
  const std::string& message = container.waiting_message;
  if (std::ranges::find(pull_reasons, reason) != pull_reasons.end()) {
    return PendingReason{"ImagePull", message.empty() ? reason : message};
  }
  if (reason == "CreateContainerConfigError") {
    if (auto missing = missing_object_reason(message)) return missing;
  }
  if (reason == "CreateContainerConfigError" || reason == "CreateContainerError" || reason == "RunContainerError") {
    return PendingReason{"ContainerConfig", message.empty() ? reason : message};
  }
  return std::nullopt;
}

bool is_creating(const resource::Pod& pod) {
  return !pod.node_name.empty() && std::ranges::any_of(pod.containers, [](const auto& container) {
    return container.waiting_reason == "ContainerCreating" || container.waiting_reason == "PodInitializing";
  });
}

/// Why a node has not created the containers of its pod. A volume that cannot be mounted shows only in the pod's
/// events, not in its status.
std::optional<PendingReason> creation_reason(const Observed& observed, const resource::Pod& pod, Time now) {
  if (!is_creating(pod)) return std::nullopt;
  if (const auto failure = observed.mount_failures.find(pod.metadata.name); failure != observed.mount_failures.end()) {
    auto missing = missing_object_reason(failure->second);
    return missing ? missing : PendingReason{"VolumeMount", failure->second};
  }
  if (!pod.metadata.creation_time || now - *pod.metadata.creation_time < creating_max) return std::nullopt;
  return PendingReason{
      "ContainerCreating",
      fmt::format("the node still prepares volumes and network; `kubectl describe pod {}` shows what fails",
                  pod.metadata.name)};
}

}  // namespace

std::optional<PendingReason> pending_reason_of(const Observed& observed, const resource::Pod& pod, Time now) {
  if (auto reason = scheduling_reason(pod)) return reason;
  for (const auto* containers : {&pod.init_containers, &pod.containers}) {
    for (const resource::ContainerStatus& container : *containers) {
      if (auto reason = container_reason(container)) return reason;
    }
  }
  return creation_reason(observed, pod, now);
}

std::optional<PendingReason> find_pending_reason(const Observed& observed, const std::vector<Member>& members,
                                                 Time now) {
  std::optional<PendingReason> first;
  std::int64_t others = 0;
  for (const Member& member : members) {
    if (member.state != MemberState::waiting) continue;
    auto reason = pending_reason_of(observed, *member.pod, now);
    if (!reason) continue;
    if (first) {
      ++others;
      continue;
    }
    first = std::move(reason);
    first->message = fmt::format("pod {}: {}", member.pod_index, first->message);
  }
  if (others > 0) first->message += fmt::format(" (and {} more)", others);
  return first;
}

std::optional<std::chrono::milliseconds> time_until_pending(const std::vector<Member>& members, Time now) {
  std::optional<std::chrono::milliseconds> soonest;
  for (const Member& member : members) {
    if (member.state != MemberState::waiting || !is_creating(*member.pod) || !member.pod->metadata.creation_time)
      continue;
    const auto left = *member.pod->metadata.creation_time + creating_max - now;
    if (left.count() > 0) soonest = soonest ? std::min(*soonest, left) : left;
  }
  return soonest;
}

PendingReason refusal_reason(const Refusal& refusal) {
  return {.reason = contains(refusal.message, "exceeded quota") ? "QuotaExceeded" : "AdmissionRefused",
          .message = refusal.message};
}

}  // namespace trainyard::plan

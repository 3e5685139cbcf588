#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/observed.hpp"

namespace trainyard::plan {

enum class MemberState {
  missing,  ///< No pod.
  waiting,  ///< The worker container has not started.
  running,
  succeeded,  ///< Exit 0, now or as recorded before the pod went.
  failed,     ///< Also exit 0 of one that was asked to stop and does not say that its work is complete.
};

/// How the worker container, or the pod before it, ended.
struct Ending {
  std::optional<int> exit_code;  ///< Empty: the pod ended without an end of its worker (evicted, lost).
  std::string reason;            ///< "OOMKilled", "Evicted", "PeerLost", ...
  std::string kubelet_reason;    ///< The container's reason as the kubelet wrote it; the worker cannot change it.
  std::string message;           ///< What the worker wrote last.
  std::optional<std::int64_t> culprit;     ///< The pod (its rank label) that the worker names as the cause.
  std::optional<int> culprit_exit_code;    ///< How that one ended, as it told the worker.
  std::optional<ProgressReport> progress;  ///< How far the worker says it came.
  std::optional<Time> at;
};

/// One pod's place in the current attempt.
struct Member {
  std::int64_t rank = 0;  ///< The pod's index in the group.
  MemberState state = MemberState::missing;
  const resource::Pod* pod = nullptr;  ///< Null when missing; owned by the Observed it was made from.
  std::optional<Ending> ending;        ///< Of failed and (where seen) succeeded members.
  bool is_leaving = false;             ///< Its deletion has been asked for.
};

/// The members of the attempt that the status records, by rank: as many as it was formed with.
[[nodiscard]] std::vector<Member> members_of(const Observed& observed);

/// How `pod` stands, whichever place in the group its name gives it.
[[nodiscard]] Member judge_pod(const Observed& observed, const resource::Pod& pod);

/// A pod that still holds resources: neither it nor all of its containers have ended.
[[nodiscard]] bool is_live(const resource::Pod& pod);

/// Its node has been silent for so long that the API server calls it unreachable.
[[nodiscard]] bool is_on_lost_node(const Observed& observed, const resource::Pod& pod);

[[nodiscard]] bool has_disruption_target(const resource::Pod& pod);

}  // namespace trainyard::plan

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
  succeeded,  ///< Exit code 0, now or as recorded before the pod was deleted.
  failed,     ///< Also exit code 0 after a stop was asked for, unless the worker reports the end of its training.
};

/// How the worker container ended. If that is unknown, how its pod ended.
struct Ending {
  std::optional<int> exit_code;  ///< Empty: the pod ended (evicted, lost) and its worker's end is unknown.
  std::string reason;            ///< "OOMKilled", "Evicted", "PeerLost", ...
  std::string kubelet_reason;    ///< The container's reason as the kubelet wrote it; the worker cannot change it.
  std::string message;           ///< The worker's last words.
  std::optional<std::int64_t> culprit;     ///< The pod index of the rank that the worker names as the cause.
  std::optional<int> culprit_exit_code;    ///< The culprit's exit code, as its launcher told the worker.
  std::optional<ProgressReport> progress;  ///< The worker's last report.
  std::optional<Time> at;
};

/// One pod's place in the current attempt.
struct Member {
  std::int64_t pod_index = 0;  ///< In the group.
  MemberState state = MemberState::missing;
  const resource::Pod* pod = nullptr;  ///< Null when missing; owned by the Observed that the member was made from.
  std::optional<Ending> ending;        ///< Set for failed members, and for succeeded ones whose end was seen.
  bool is_leaving = false;             ///< The pod is being deleted.
};

/// The members of the current attempt, by pod index. Their number is the size that the attempt began with.
[[nodiscard]] std::vector<Member> members_of(const Observed& observed);

/// The state and the end of `pod`, as a Member. `pod` may belong to another attempt, or be the clean-up pod.
[[nodiscard]] Member member_of(const Observed& observed, const resource::Pod& pod);

/// True when the pod still holds resources: neither the pod nor all of its containers have ended.
[[nodiscard]] bool is_live(const resource::Pod& pod);

/// True when the API server calls the pod's node unreachable.
[[nodiscard]] bool is_on_lost_node(const Observed& observed, const resource::Pod& pod);

[[nodiscard]] bool has_disruption_target(const resource::Pod& pod);

}  // namespace trainyard::plan

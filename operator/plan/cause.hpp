#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// How an attempt ended, and what its end is charged to.
struct AttemptEnd {
  api::Cause cause = api::Cause::application;
  bool is_final = false;   ///< A restart cannot help: exit code 93.
  bool is_charged = true;  ///< A restart counts against the budget of spec.restart that `cause` chooses (restart.hpp).
                           ///< False where a rank ended with 94 (rendezvous) while another pod had not been created, or
                           ///< the worker of another pod had not started: the job waits for room then.
  std::optional<std::int64_t> pod_index;  ///< The culprit's pod's index in the group.
  std::string pod;
  std::string node;
  std::optional<int> exit_code;
  std::string message;
  std::vector<std::string> lost_nodes;  ///< Nodes that the next attempt avoids.
  bool operator==(const AttemptEnd&) const = default;
};

struct Judgement {
  std::optional<AttemptEnd> end;
  /// The time until a second look, where there is no `end` yet because better evidence may still come.
  std::optional<std::chrono::milliseconds> requeue_after;
  std::vector<std::string> absent_pods;  ///< Names of the attempt's pods that existed and no longer do.
};

/// How long to wait for a better witness after a rank has ended with 90 (lost a peer) or 91 (asked to stop). The wait
/// is up to a second longer, since Kubernetes gives a container's end in whole seconds.
inline constexpr std::chrono::milliseconds witness_wait{2'000};

/// Decides whether the attempt has lost a member, which member is the culprit, and which cause that is charged to.
///
/// Exit codes are those of api/contract.hpp. A lost member is a witness of the attempt's end. The best one decides.
/// From best to worst:
///   1. a container that ended with 93 (a restart cannot help);
///   2. a pod that Kubernetes or the pod's node ended, whose node is unreachable, or whose container was lost or could
///      not be started though the image has its command;
///   3. a pod that is gone; a pod that is being deleted, if its container has failed with another code than 90;
///   4. a pod that is being deleted and whose container has not ended. While the container of a job with checkpoints
///      runs, such a pod ends the attempt only after the pod's grace period, since the group may still save;
///   5. a container that ended with any other failure;
///   6. a container that ended with 91 (asked to stop);
///   7. a container that ended with 90 (lost a peer).
/// A container of 6 or 7 ends the attempt only if no better witness comes until `witness_wait` after its end.
/// Among witnesses of one number in this list the one that ended first decides, and then the lower pod index. Where
/// number 7 decides and the rank has named the peer that it lost, that peer is the culprit.
///
/// The cause to which the end is charged:
///   - application: any end of a container that is not named below, also OOMKilled, 93, and 95 (a hang);
///   - infrastructure: the pods of number 2; pods that the system is deleting (has_disruption_target()); the exit codes
///     91, 92 (fenced), 94 (rendezvous), 96 (storage) and 97 (no GPU, or a failed one) in a pod that nobody is
///     deleting; and 90 in any pod. If the rank's termination message also has the exit code of the peer that it lost,
///     the end is charged to the cause of that exit code instead;
///   - deleted: any other pod that is gone or is being deleted, unless its container failed with 90 or 93. A restart
///     after a deletion counts against infrastructure's budget.
/// status.attempts keeps the answer: cause, rank (the index of the culprit's pod, even where a pod has several ranks),
/// pod, node, exit code and message (transition.hpp). A new attempt is charged to nobody if it begins because the spec
/// was edited before all pods ran, because avoided nodes are tried again, or because the job is resumed (decide.hpp).
[[nodiscard]] Judgement judge_members(const Observed& observed, const std::vector<Member>& members, Time now);

}  // namespace trainyard::plan

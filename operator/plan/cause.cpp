#include "operator/plan/cause.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "api/contract.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using std::chrono::milliseconds;

/// In order: the better witness comes first.
enum class Witness {
  final_word,     // The container ended with 93: a restart cannot help.
  disrupted,      // Kubernetes ended the pod, or the node is unreachable, lost the container or could not run it.
  gone,           // The pod is gone, or is being deleted and its container failed with another code than 90.
  leaving,        // The pod is being deleted, and its container has not ended.
  first_hand,     // The container ended with any other failure.
  asked_to_stop,  // The container ended with 91.
  lost_peer       // The container ended with 90.
};

struct Suspect {
  const Member* member = nullptr;
  Witness witness = Witness::first_hand;
  Cause cause = Cause::application;
  std::string message;
  std::optional<Time> waits_until;  ///< Does not end the attempt before this time. Another suspect may.
};

/// The kubelet kills a pod at the end of the grace period. Its report of that may take this much longer.
constexpr milliseconds report_wait{2'000};

/// True when the kubelet or the control plane ended the pod, and not its own container.
bool is_ended_by_system(const resource::Pod& pod) {
  constexpr std::array reasons{
      "Evicted",      "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "UnexpectedAdmissionError",
      "NodeAffinity", "OutOfcpu", "OutOfmemory",  "OutOfpods"};
  return has_disruption_target(pod) || std::ranges::find(reasons, pod.reason) != reasons.end() ||
         pod.reason.starts_with("OutOf");
}

/// True when the kubelet lost the container (as after a quick reboot of its node) or could not run it (as when a GPU's
/// runtime hook fails).
bool is_failure_of_node(const Ending& ending) {
  const std::string& reason = ending.kubelet_reason;
  if (reason == "ContainerStatusUnknown") return true;
  if (reason == "Unknown") return ending.exit_code == 255 || ending.exit_code == 137;
  if (reason != "StartError" && reason != "ContainerCannotRun") return false;
  // Runtimes give these reasons also for a command that the image lacks, which is a mistake in the template.
  const auto says = [&](std::string_view words) { return ending.message.find(words) != std::string::npos; };
  return !says("exec: \"") && !says("executable file");
}

/// Kubernetes writes whole seconds: a container may have ended up to a second later than its end time says. Without
/// this second the wait could be half as long, and the culprit's own report could come too late.
constexpr std::chrono::milliseconds time_precision{1'000};

/// When to stop waiting for a better witness. A node's clock that runs ahead of ours must not lengthen the wait: an end
/// in the future is treated as old.
Time witness_deadline(const std::optional<Time>& ended_at, Time now) {
  return ended_at && *ended_at <= now + witness_wait ? *ended_at + time_precision + witness_wait : now;
}

std::string describe_ending(const Ending& ending) {
  std::string text = ending.exit_code ? fmt::format("exit code {}", *ending.exit_code) : std::string{"ended"};
  if (!ending.reason.empty() && ending.reason != "Error") text += fmt::format(" ({})", ending.reason);
  if (!ending.message.empty()) text += fmt::format(": {}", ending.message);
  return text;
}

/// The cause of the end of a container that ended by itself, or was asked to stop.
Cause cause_of_code(int code) {
  switch (code) {
    case contract::exit_preempted:
    case contract::exit_fenced:
    case contract::exit_rendezvous:
    case contract::exit_storage:
    case contract::exit_device:
      return Cause::infrastructure;
    default:
      return Cause::application;
  }
}

Suspect accuse_failed(const Observed& observed, const Member& member, Time now) {
  const Ending& ending = *member.ending;
  const int code = ending.exit_code.value_or(-1);
  Suspect suspect{.member = &member, .message = describe_ending(ending)};
  if (code == contract::exit_do_not_restart) {
    suspect.witness = Witness::final_word;
  } else if (is_ended_by_system(*member.pod) || is_on_lost_node(observed, *member.pod) || is_failure_of_node(ending)) {
    suspect.witness = Witness::disrupted;
    suspect.cause = Cause::infrastructure;
  } else if (code == contract::exit_peer_lost) {
    suspect.witness = Witness::lost_peer;
    suspect.cause = Cause::infrastructure;
    suspect.waits_until = witness_deadline(ending.at, now);
  } else if (member.is_leaving) {
    suspect.witness = Witness::gone;
    suspect.cause = Cause::deleted;
    suspect.message = fmt::format("the pod was deleted; {}", suspect.message);
  } else if (code == contract::exit_preempted) {
    suspect.witness = Witness::asked_to_stop;
    suspect.cause = Cause::infrastructure;
    suspect.waits_until = witness_deadline(ending.at, now);
  } else {
    suspect.cause = cause_of_code(code);
  }
  return suspect;
}

/// A pod that is being deleted still runs. A group with checkpoints is saving one then, and ending the attempt now
/// would lose work.
Suspect accuse_leaving(const Observed& observed, const Member& member, Time now) {
  Suspect suspect{
      .member = &member, .witness = Witness::leaving, .cause = Cause::deleted, .message = "the pod is being deleted"};
  const bool may_save = observed.job.spec.checkpoint.has_value() && member.state == MemberState::running;
  suspect.waits_until = may_save ? *member.pod->metadata.deletion_time + report_wait : now;
  if (has_disruption_target(*member.pod)) suspect.cause = Cause::infrastructure;
  return suspect;
}

std::optional<Suspect> accuse(const Observed& observed, const Member& member, Time now) {
  if (member.state == MemberState::succeeded) return std::nullopt;
  if (member.state == MemberState::missing) {
    // Before the attempt is formed, a missing pod is still to be created.
    if (!observed.job.status.is_formed) return std::nullopt;
    return Suspect{.member = &member,
                   .witness = Witness::gone,
                   .cause = Cause::deleted,
                   .message = "the pod is gone; how it ended was not seen"};
  }
  if (member.state == MemberState::failed) return accuse_failed(observed, member, now);
  if (is_on_lost_node(observed, *member.pod)) {
    return Suspect{.member = &member,
                   .witness = Witness::disrupted,
                   .cause = Cause::infrastructure,
                   .message = fmt::format("node {} is unreachable", member.pod->node_name)};
  }
  if (member.is_leaving) return accuse_leaving(observed, member, now);
  return std::nullopt;
}

bool decides_now(const Suspect& suspect, Time now) {
  return !suspect.waits_until || *suspect.waits_until <= now;
}

/// Compares suspects. If both are equally good witnesses, the one that ended first is better, then the lower pod index.
/// A suspect without an end time comes last.
bool is_better(const Suspect& left, const Suspect& right) {
  const auto key = [](const Suspect& suspect) {
    const auto at = suspect.member->ending ? suspect.member->ending->at : std::nullopt;
    return std::tuple{suspect.witness, at.value_or(Time::max()), suspect.member->pod_index};
  };
  return key(left) < key(right);
}

bool takes_node_along(const resource::Pod& pod) {
  return std::ranges::any_of(pod.conditions, [](const resource::PodCondition& condition) {
    return condition.type == "DisruptionTarget" && condition.is_true &&
           (condition.reason == "DeletionByTaintManager" || condition.reason == "TerminationByKubelet");
  });
}

/// True when the node did not give the pod its GPUs, or one of them failed: a pod of the next attempt would fare alike.
bool lacks_device(const Member& member) {
  return member.ending && member.ending->exit_code == contract::exit_device;
}

void add_node(std::vector<std::string>& nodes, const std::string& node) {
  if (!node.empty() && std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
}

AttemptEnd end_by(const Suspect& culprit) {
  const Member& member = *culprit.member;
  AttemptEnd end{.cause = culprit.cause,
                 .is_final = culprit.witness == Witness::final_word,
                 .pod_index = member.pod_index,
                 .message = culprit.message};
  if (member.pod != nullptr) {
    end.pod = member.pod->metadata.name;
    end.node = member.pod->node_name;
  }
  if (member.ending) end.exit_code = member.ending->exit_code;
  return end;
}

/// Blames the peer that `witness` lost, if it names one. Used when all reports are of lost peers.
void blame_named_peer(const Suspect& witness, const std::vector<Member>& members, AttemptEnd& end) {
  const auto& named = witness.member->ending->culprit;
  end.message = fmt::format("pod {} lost a peer: {}", witness.member->pod_index, witness.message);
  if (!named || *named < 0 || *named >= static_cast<std::int64_t>(members.size())) return;
  const Member& member = members[static_cast<std::size_t>(*named)];
  end.pod_index = member.pod_index;
  end.exit_code = member.ending ? member.ending->exit_code : std::nullopt;
  end.pod = member.pod != nullptr ? member.pod->metadata.name : std::string{};
  end.node = member.pod != nullptr ? member.pod->node_name : std::string{};
  if (const auto& told = witness.member->ending->culprit_exit_code) {
    // The lost rank's launcher has told its peers how the rank ended; only the kubelet's report is late.
    end.exit_code = told;
    end.cause = cause_of_code(*told);
    end.is_final = *told == contract::exit_do_not_restart;
    return;
  }
  // Its peers lost this rank, and its kubelet has not reported its end. Its node is probably lost, which the API server
  // notices after 40-50 s.
  if (member.state == MemberState::running) add_node(end.lost_nodes, end.node);
}

}  // namespace

Judgement judge_members(const Observed& observed, const std::vector<Member>& members, Time now) {
  Judgement judgement;
  std::vector<Suspect> suspects;
  for (const Member& member : members) {
    if (auto suspect = accuse(observed, member, now)) suspects.push_back(std::move(*suspect));
    if (member.state == MemberState::missing && observed.job.status.is_formed) {
      judgement.absent_pods.push_back(manifest::pod_name(observed.job, observed.job.status.attempt, member.pod_index));
    }
  }
  if (suspects.empty()) return judgement;
  if (std::ranges::none_of(suspects, [&](const Suspect& suspect) { return decides_now(suspect, now); })) {
    const auto first = std::ranges::min(suspects, {}, [](const Suspect& suspect) { return *suspect.waits_until; });
    judgement.requeue_after = *first.waits_until - now;
    return judgement;
  }
  const Suspect& culprit = *std::ranges::min_element(suspects, is_better);
  AttemptEnd end = end_by(culprit);
  if (culprit.witness == Witness::lost_peer) blame_named_peer(culprit, members, end);
  for (const Suspect& suspect : suspects) {
    const resource::Pod* pod = suspect.member->pod;
    if (pod == nullptr) continue;
    if (is_on_lost_node(observed, *pod) || takes_node_along(*pod) || lacks_device(*suspect.member)) {
      add_node(end.lost_nodes, pod->node_name);
    }
  }
  // The rank's exit code may come from a peer, before the rank's own report.
  if (end.exit_code == contract::exit_device) add_node(end.lost_nodes, end.node);
  // These ranks gave up on a peer that has no place yet, on a node or within a quota. The job waits for room, which is
  // nobody's fault.
  const bool is_waiting_for_room = std::ranges::any_of(members, [&](const Member& member) {
    return member.state == MemberState::waiting ||
           (member.state == MemberState::missing && !observed.job.status.is_formed);
  });
  if (end.exit_code == contract::exit_rendezvous && is_waiting_for_room) end.is_charged = false;
  judgement.end = std::move(end);
  return judgement;
}

}  // namespace trainyard::plan

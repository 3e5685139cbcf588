#include "operator/plan/member.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"
#include "operator/plan/conditions.hpp"

namespace trainyard::plan {
namespace {

using nlohmann::json;

bool is_typed_code(std::int64_t code) {
  return code >= contract::exit_peer_lost && code <= contract::exit_device;
}

/// Our worker writes one JSON object (api/contract.hpp). Any other container may write any text.
void read_termination_message(const std::string& text, const Observed& observed, Ending& ending) {
  const json message = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) return;
  const auto number = [&](const char* name) -> std::optional<std::int64_t> {
    const auto found = message.find(name);
    return found != message.end() && found->is_number_integer() ? std::optional{found->get<std::int64_t>()}
                                                                : std::nullopt;
  };
  const auto text_of = [&](const char* name) -> std::string {
    const auto found = message.find(name);
    return found != message.end() && found->is_string() ? bounded_text(found->get<std::string>()) : std::string{};
  };
  // Launchers such as torchrun end with 1 whatever their ranks' exit codes; the rank's own code is more precise.
  const auto exit_code = number("exitCode");
  if (exit_code && is_typed_code(*exit_code) && ending.exit_code != contract::exit_success) {
    ending.exit_code = static_cast<int>(*exit_code);
  }
  if (const std::string reason = text_of("reason"); !reason.empty()) ending.reason = reason;
  if (const std::string sentence = text_of("message"); !sentence.empty()) ending.message = sentence;
  if (const auto culprit = number("culprit"); culprit && *culprit >= 0) {
    ending.culprit = *culprit / manifest::ranks_per_pod(observed.job.spec);
  }
  if (const auto code = number("culpritExitCode"); code && *code >= 0 && *code <= 255) {
    ending.culprit_exit_code = static_cast<int>(*code);
  }
  if (const auto progress = message.find("progress"); progress != message.end() && progress->is_object()) {
    ending.progress = read_progress_report(*progress, observed.job.status.attempt, ending.at.value_or(Time{}));
  }
}

/// True when the message is our worker's report that its training has reached its end.
bool reports_success(const std::string& text) {
  const json message = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) return false;
  const auto reason = message.find("reason");
  return reason != message.end() && (*reason == "Completed" || *reason == "AlreadyComplete");
}

/// True when the container ended after it was asked to stop. Many programs then end with 0 although their work is not
/// done.
bool may_have_been_stopped(const resource::Pod& pod, const resource::ContainerTermination& terminated) {
  if (!pod.metadata.deletion_time || !terminated.finished_at) return false;
  // Containers' end times are whole seconds.
  const auto asked_at =
      std::chrono::floor<std::chrono::seconds>(*pod.metadata.deletion_time) - pod.metadata.deletion_grace;
  return *terminated.finished_at >= asked_at;
}

bool is_success(const resource::Pod& pod, const resource::ContainerTermination& terminated) {
  return terminated.exit_code == 0 && (reports_success(terminated.message) || !may_have_been_stopped(pod, terminated));
}

Ending ending_of(const resource::ContainerTermination& terminated, const Observed& observed) {
  Ending ending{.exit_code = terminated.exit_code,
                .reason = bounded_text(terminated.reason),
                .kubelet_reason = bounded_text(terminated.reason),
                .message = bounded_text(terminated.message),
                .at = terminated.finished_at};
  read_termination_message(terminated.message, observed, ending);
  return ending;
}

const resource::ContainerStatus* find_status(const std::vector<resource::ContainerStatus>& statuses,
                                             const std::string& name) {
  const auto found = std::ranges::find(statuses, name, &resource::ContainerStatus::name);
  return found == statuses.end() ? nullptr : &*found;
}

/// How a pod ended whose worker has no end: it was evicted, its node refused it, or an init container failed.
Ending ending_of_pod(const resource::Pod& pod) {
  for (const resource::ContainerStatus& init : pod.init_containers) {
    if (!init.terminated || init.terminated->exit_code == 0) continue;
    return {.exit_code = init.terminated->exit_code,
            .reason = init.terminated->reason,
            .kubelet_reason = init.terminated->reason,
            .message = fmt::format("init container '{}' failed: {}", init.name, init.terminated->message),
            .at = init.terminated->finished_at};
  }
  return {.reason = pod.reason, .message = pod.message};
}

}  // namespace

Member member_of(const Observed& observed, const resource::Pod& pod) {
  Member member{.pod_index = manifest::pod_index_of(observed.job, pod),
                .pod = &pod,
                .is_leaving = pod.metadata.deletion_time.has_value()};
  std::vector<std::string> names;
  for (const auto& container : pod.containers) names.push_back(container.name);
  const resource::ContainerStatus* worker =
      find_status(pod.containers, manifest::deciding_container(observed.job.spec, names));
  if (worker != nullptr && worker->terminated) {
    member.ending = ending_of(*worker->terminated, observed);
    member.state = is_success(pod, *worker->terminated) ? MemberState::succeeded : MemberState::failed;
  } else if (pod.phase == resource::PodPhase::failed) {
    member.ending = ending_of_pod(pod);
    member.state = MemberState::failed;
  } else if (pod.phase == resource::PodPhase::succeeded) {
    member.state = MemberState::succeeded;
  } else {
    member.state = worker != nullptr && worker->is_running ? MemberState::running : MemberState::waiting;
  }
  return member;
}

std::vector<Member> members_of(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  std::vector<Member> members(static_cast<std::size_t>(std::max<std::int64_t>(0, status.replicas.desired)));
  for (std::size_t i = 0; i < members.size(); ++i) members[i].pod_index = static_cast<std::int64_t>(i);
  for (const resource::Pod& pod : observed.pods) {
    const auto numbers = manifest::pod_numbers(observed.job, pod.metadata.name);
    if (!numbers || numbers->attempt != status.attempt || numbers->pod_index >= status.replicas.desired) continue;
    members[static_cast<std::size_t>(numbers->pod_index)] = member_of(observed, pod);
  }
  for (const std::int64_t pod_index : status.succeeded_ranks) {
    if (pod_index >= 0 && pod_index < status.replicas.desired)
      members[static_cast<std::size_t>(pod_index)].state = MemberState::succeeded;
  }
  return members;
}

bool is_live(const resource::Pod& pod) {
  if (pod.phase == resource::PodPhase::succeeded || pod.phase == resource::PodPhase::failed) return false;
  // The kubelet reports the last container's end a moment before the pod's. Deleting the pod in between would lose its
  // log.
  return pod.containers.empty() || !std::ranges::all_of(pod.containers, [](const resource::ContainerStatus& container) {
           return container.terminated.has_value();
         });
}

bool is_on_lost_node(const Observed& observed, const resource::Pod& pod) {
  const auto node = observed.nodes.find(pod.node_name);
  return node != observed.nodes.end() && node->second.is_unreachable;
}

bool has_disruption_target(const resource::Pod& pod) {
  return std::ranges::any_of(pod.conditions, [](const resource::PodCondition& condition) {
    return condition.type == "DisruptionTarget" && condition.is_true;
  });
}

}  // namespace trainyard::plan

#include "tests/builders/an_observed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/spec_hash.hpp"

namespace trainyard::builders {
namespace {

std::string node_name(std::int64_t pod_index) {
  return fmt::format("node-{}", pod_index);
}

resource::Node a_node(const std::string& name) {
  return {.metadata = {.name = name, .uid = "uid-of-" + name}, .is_ready = true};
}

}  // namespace

resource::Pod a_pod(const api::TrainingJob& job, std::int64_t attempt, std::int64_t pod_index) {
  const std::string name = manifest::pod_name(job, attempt, pod_index);
  return {.metadata = {.name = name,
                       .name_space = job.metadata.name_space,
                       .uid = "uid-of-" + name,
                       .resource_version = "11",
                       .annotations = {{std::string{manifest::spec_hash_annotation}, manifest::spec_hash(job.spec)}},
                       .creation_time = start,
                       .controller = manifest::owner_reference(job)},
          .phase = resource::PodPhase::running,
          .node_name = node_name(pod_index),
          .pod_ip = fmt::format("10.0.0.{}", pod_index + 1),
          .conditions = {{.type = "PodScheduled", .is_true = true}},
          .containers = {{.name = "worker", .is_running = true, .is_ready = true}}};
}

ObservedBuilder::ObservedBuilder(const JobBuilder& job) {
  observed_.job = job;
  observed_.traits = manifest::kubernetes_traits();
  observed_.settings = {.worker_image_cpu = "trainyard-worker:cpu", .worker_image_cuda = "trainyard-worker:cuda"};
  observed_.is_template_accepted = true;
  observed_.service = resource::Service{.metadata = {.name = manifest::service_name(observed_.job),
                                                     .name_space = "research",
                                                     .uid = "uid-of-service",
                                                     .controller = manifest::owner_reference(observed_.job)},
                                        .attempt = 1};
  api::TrainingJobStatus& status = observed_.job.status;
  status.phase = api::Phase::running;
  status.attempt = 1;
  status.attempt_generation = observed_.job.metadata.generation;
  status.observed_generation = observed_.job.metadata.generation;
  status.is_formed = true;
  status.selector = manifest::job_selector(observed_.job);
  status.replicas = {.desired = observed_.job.spec.replicas, .ready = observed_.job.spec.replicas};
  status.ready = fmt::format("{0}/{0}", observed_.job.spec.replicas);
  status.start_time = start;
  status.worker_image = "trainyard-worker:cpu";
  status.attempts = {{.number = 1, .start = start}};
  make_pods();
}

void ObservedBuilder::make_pods() {
  observed_.pods.clear();
  for (std::int64_t pod_index = 0; pod_index < observed_.job.spec.replicas; ++pod_index) {
    observed_.pods.push_back(a_pod(observed_.job, observed_.job.status.attempt, pod_index));
    observed_.nodes[node_name(pod_index)] = a_node(node_name(pod_index));
  }
}

resource::Pod& ObservedBuilder::pod(std::int64_t pod_index) {
  const auto found = std::ranges::find_if(
      observed_.pods, [&](const auto& pod) { return manifest::pod_index_of(observed_.job, pod) == pod_index; });
  check(found != observed_.pods.end(), "the pod that a test changes is there");
  return *found;
}

ObservedBuilder& ObservedBuilder::attempt(std::int64_t attempt) {
  observed_.job.status.attempt = attempt;
  observed_.service->attempt = attempt;
  observed_.job.status.attempts = {{.number = attempt, .start = start}};
  make_pods();
  return *this;
}

ObservedBuilder& ObservedBuilder::unformed() {
  observed_.job.status.is_formed = false;
  return phase(api::Phase::starting);
}

ObservedBuilder& ObservedBuilder::phase(api::Phase phase, std::string reason) {
  observed_.job.status.phase = phase;
  observed_.job.status.reason = std::move(reason);
  return *this;
}

ObservedBuilder& ObservedBuilder::missing(std::int64_t pod_index) {
  std::erase_if(observed_.pods,
                [&](const auto& pod) { return manifest::pod_index_of(observed_.job, pod) == pod_index; });
  return *this;
}

ObservedBuilder& ObservedBuilder::waiting(std::int64_t pod_index, std::string reason, std::string message) {
  resource::Pod& waiting = pod(pod_index);
  waiting.phase = resource::PodPhase::pending;
  waiting.containers = {{.name = "worker", .waiting_reason = std::move(reason), .waiting_message = std::move(message)}};
  return *this;
}

ObservedBuilder& ObservedBuilder::unscheduled(std::int64_t pod_index, std::string message) {
  resource::Pod& waiting = pod(pod_index);
  waiting.phase = resource::PodPhase::pending;
  waiting.node_name.clear();
  waiting.pod_ip.clear();
  waiting.containers.clear();
  waiting.conditions = {
      {.type = "PodScheduled", .is_true = false, .reason = "Unschedulable", .message = std::move(message)}};
  return *this;
}

ObservedBuilder& ObservedBuilder::ended(std::int64_t pod_index, int exit_code, std::string message,
                                        std::string reason) {
  resource::Pod& ended = pod(pod_index);
  ended.phase = exit_code == 0 ? resource::PodPhase::succeeded : resource::PodPhase::failed;
  ended.containers = {
      {.name = "worker",
       .terminated = resource::ContainerTermination{
           .exit_code = exit_code, .reason = std::move(reason), .message = std::move(message), .finished_at = start}}};
  return *this;
}

ObservedBuilder& ObservedBuilder::leaving(std::int64_t pod_index, Time until) {
  pod(pod_index).metadata.deletion_time = until;
  return *this;
}

ObservedBuilder& ObservedBuilder::disrupted(std::int64_t pod_index, std::string reason) {
  pod(pod_index).conditions.push_back({.type = "DisruptionTarget", .is_true = true, .reason = std::move(reason)});
  return *this;
}

ObservedBuilder& ObservedBuilder::on_lost_node(std::int64_t pod_index) {
  resource::Node& node = observed_.nodes.at(pod(pod_index).node_name);
  node.is_ready = false;
  node.is_unreachable = true;
  return *this;
}

ObservedBuilder& ObservedBuilder::with(const std::function<void(plan::Observed&)>& change) {
  change(observed_);
  return *this;
}

plan::Observed first_sight(const JobBuilder& job) {
  plan::Observed observed = ObservedBuilder{job};
  observed.job.status = {};
  observed.pods.clear();
  observed.service.reset();
  observed.is_template_accepted = false;
  return observed;
}

}  // namespace trainyard::builders

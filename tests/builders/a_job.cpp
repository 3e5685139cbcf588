#include "tests/builders/a_job.hpp"

#include <array>
#include <utility>

namespace trainyard::builders {

using nlohmann::json;

JobBuilder::JobBuilder() {
  job_.metadata = {.name = "smoke",
                   .name_space = "research",
                   .uid = "c0de1234-0000-4000-8000-000000000001",
                   .resource_version = "7",
                   .generation = 1,
                   .creation_time = start};
  job_.spec.replicas = 2;
  job_.spec.gpus_per_pod = 0;
  job_.spec.training = api::TrainingSpec{.model = {.name = "fashion_cnn"}, .max_steps = 200};
}

JobBuilder& JobBuilder::named(std::string name) {
  job_.metadata.name = std::move(name);
  return *this;
}
JobBuilder& JobBuilder::uid(std::string uid) {
  job_.metadata.uid = std::move(uid);
  return *this;
}
JobBuilder& JobBuilder::replicas(std::int64_t count) {
  job_.spec.replicas = count;
  return *this;
}
JobBuilder& JobBuilder::gpus_per_pod(std::int64_t count) {
  job_.spec.gpus_per_pod = count;
  return *this;
}
JobBuilder& JobBuilder::checkpoint(std::string uri) {
  job_.spec.checkpoint = api::CheckpointSpec{.uri = std::move(uri)};
  return *this;
}
JobBuilder& JobBuilder::on_delete(api::OnDelete policy) {
  if (!job_.spec.checkpoint) checkpoint();
  job_.spec.checkpoint->on_delete = policy;
  return *this;
}
JobBuilder& JobBuilder::without_training() {
  job_.spec.training.reset();
  return *this;
}
JobBuilder& JobBuilder::pod_template(std::string_view text) {
  job_.spec.pod_template = json::parse(text);
  return *this;
}
JobBuilder& JobBuilder::container(std::string_view image) {
  job_.spec.pod_template = {{"spec", {{"containers", json::array({{{"name", "worker"}, {"image", image}}})}}}};
  return *this;
}
JobBuilder& JobBuilder::suspended(bool is_suspended) {
  job_.spec.is_suspended = is_suspended;
  return *this;
}
JobBuilder& JobBuilder::deadline(std::chrono::seconds deadline) {
  job_.spec.active_deadline = deadline;
  return *this;
}
JobBuilder& JobBuilder::ttl(std::chrono::seconds ttl) {
  job_.spec.ttl_after_finished = ttl;
  return *this;
}
JobBuilder& JobBuilder::clean_pods(api::CleanPods policy) {
  job_.spec.clean_pods = policy;
  return *this;
}
JobBuilder& JobBuilder::generation(std::int64_t generation) {
  job_.metadata.generation = generation;
  return *this;
}

json JobBuilder::manifest() const {
  const api::TrainingJobSpec& spec = job_.spec;
  constexpr std::array clean_pods_names{"None", "Running", "All"};
  json fields{{"replicas", spec.replicas},
              {"gpusPerPod", spec.gpus_per_pod},
              {"suspend", spec.is_suspended},
              {"cleanPods", clean_pods_names.at(static_cast<std::size_t>(spec.clean_pods))}};
  if (!spec.pod_template.empty()) fields["template"] = spec.pod_template;
  if (spec.training) fields["training"] = api::to_json(*spec.training);
  if (spec.checkpoint) fields["checkpoint"] = api::to_json(*spec.checkpoint);
  if (spec.active_deadline) fields["activeDeadlineSeconds"] = spec.active_deadline->count();
  if (spec.ttl_after_finished) fields["ttlSecondsAfterFinished"] = spec.ttl_after_finished->count();
  return {{"apiVersion", "trainyard.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", job_.metadata.name}, {"namespace", job_.metadata.name_space}}},
          {"spec", std::move(fields)}};
}

}  // namespace trainyard::builders

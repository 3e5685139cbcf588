#include "operator/manifest/names.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "common/text.hpp"

namespace trainyard::manifest {
namespace {

/// Reads a number as pod_name writes it: digits alone, without leading zeros. Empty for any other text.
std::optional<std::int64_t> parse_plain_number(std::string_view text) {
  const bool is_plain = !text.empty() && text.front() != '-' && (text.front() != '0' || text.size() == 1);
  return is_plain ? parse_number<std::int64_t>(text) : std::nullopt;
}

}  // namespace

std::string owned_name(const api::TrainingJob& job) {
  return fmt::format("{}-{}", job.metadata.name, job.metadata.uid.substr(0, 4));
}

std::string service_name(const api::TrainingJob& job) {
  return owned_name(job);
}

std::string pod_name(const api::TrainingJob& job, std::int64_t attempt, std::int64_t pod_index) {
  return fmt::format("{}-{}-{}", owned_name(job), attempt, pod_index);
}

std::string clean_up_pod_name(const api::TrainingJob& job) {
  return fmt::format("{}-cleanup", owned_name(job));
}

PodPlace place_of(const api::TrainingJob& job, std::int64_t attempt, std::int64_t pod_index) {
  return {.name_space = job.metadata.name_space,
          .service = service_name(job),
          .pod = pod_name(job, attempt, pod_index),
          .attempt = attempt,
          .pod_index = pod_index};
}

std::string job_selector(const api::TrainingJob& job) {
  return fmt::format("{}={}", contract::label_job, job.metadata.name);
}

std::optional<PodNumbers> pod_numbers(const api::TrainingJob& job, std::string_view name) {
  const std::string prefix = owned_name(job) + "-";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const auto hyphen = name.find('-');
  if (hyphen == std::string_view::npos) return std::nullopt;
  const auto attempt = parse_plain_number(name.substr(0, hyphen));
  const auto pod_index = parse_plain_number(name.substr(hyphen + 1));
  if (!attempt || *attempt < 1 || !pod_index) return std::nullopt;
  return PodNumbers{.attempt = *attempt, .pod_index = *pod_index};
}

std::int64_t attempt_of(const api::TrainingJob& job, const resource::Pod& pod) {
  const auto numbers = pod_numbers(job, pod.metadata.name);
  return numbers ? numbers->attempt : -1;
}

std::int64_t pod_index_of(const api::TrainingJob& job, const resource::Pod& pod) {
  const auto numbers = pod_numbers(job, pod.metadata.name);
  return numbers ? numbers->pod_index : -1;
}

api::OwnerReference owner_reference(const api::TrainingJob& job) {
  return {.api_version = fmt::format("{}/{}", contract::api_group, contract::api_version),
          .kind = "TrainingJob",
          .name = job.metadata.name,
          .uid = job.metadata.uid,
          .is_controller = true};
}

nlohmann::json owned_metadata(const api::TrainingJob& job, const std::string& name) {
  const api::OwnerReference owner = owner_reference(job);
  return {{"name", name},
          {"namespace", job.metadata.name_space},
          {"labels", {{contract::label_job, job.metadata.name}}},
          {"ownerReferences",
           {{{"apiVersion", owner.api_version},
             {"kind", owner.kind},
             {"name", owner.name},
             {"uid", owner.uid},
             {"controller", owner.is_controller}}}}};
}

bool is_controlled_by(const api::Metadata& object, const api::TrainingJob& job) {
  return object.name_space == job.metadata.name_space && object.controller == owner_reference(job);
}

bool is_pod_of(const resource::Pod& pod, const api::TrainingJob& job) {
  if (!is_controlled_by(pod.metadata, job)) return false;
  if (pod.metadata.name == clean_up_pod_name(job)) return true;
  const auto numbers = pod_numbers(job, pod.metadata.name);
  return numbers && (numbers->attempt != job.status.attempt || numbers->pod_index < job.status.replicas.desired);
}

bool is_service_of(const resource::Service& service, const api::TrainingJob& job) {
  return is_controlled_by(service.metadata, job) && service.metadata.name == service_name(job);
}

}  // namespace trainyard::manifest

#pragma once

#include <string>

#include "api/training_job.hpp"

namespace trainyard::builders {

/// The time at which the tests' stories begin.
inline constexpr Time start{std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} + std::chrono::hours{10}};
/// The time at which most tests make a plan.
inline constexpr Time later = start + std::chrono::seconds{10};

/// Builds a valid job as the API server would return it: two CPU pods of synthetic training, without a status.
class JobBuilder {
 public:
  JobBuilder();

  JobBuilder& named(std::string name);
  JobBuilder& uid(std::string uid);
  JobBuilder& replicas(std::int64_t count);
  JobBuilder& gpus_per_pod(std::int64_t count);
  JobBuilder& checkpoint(std::string uri = "s3://models/smoke");
  /// Deletes the checkpoints with the job (onDelete).
  JobBuilder& on_delete(api::OnDelete policy = api::OnDelete::remove);
  JobBuilder& without_training();
  /// The template's JSON; a syntax error ends the test.
  JobBuilder& pod_template(std::string_view text);
  JobBuilder& container(std::string_view image = "registry.example/train:1");
  JobBuilder& suspended(bool is_suspended = true);
  JobBuilder& deadline(std::chrono::seconds deadline);
  JobBuilder& ttl(std::chrono::seconds ttl);
  JobBuilder& clean_pods(api::CleanPods policy);
  JobBuilder& generation(std::int64_t generation);

  [[nodiscard]] api::TrainingJob build() const { return job_; }
  operator api::TrainingJob() const { return job_; }  // NOLINT(google-explicit-constructor): reads as the job it builds

  /// The object as a user would apply it: apiVersion, kind, metadata, spec.
  [[nodiscard]] nlohmann::json manifest() const;

 private:
  api::TrainingJob job_;
};

[[nodiscard]] inline JobBuilder a_job() {
  return JobBuilder{};
}

}  // namespace trainyard::builders

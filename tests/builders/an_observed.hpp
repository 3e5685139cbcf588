#pragma once

#include <functional>
#include <string>

#include "operator/plan/observed.hpp"
#include "tests/builders/a_job.hpp"

namespace trainyard::builders {

/// One pod of attempt `attempt`, running on node "node-<pod index>".
[[nodiscard]] resource::Pod a_pod(const api::TrainingJob& job, std::int64_t attempt, std::int64_t pod_index);

/// Builds what the operator sees of a job whose first attempt runs: two pods with running workers, the service, all
/// nodes ready. Each method changes one thing.
class ObservedBuilder {
 public:
  explicit ObservedBuilder(const JobBuilder& job = a_job());

  // ---- The attempt
  ObservedBuilder& attempt(std::int64_t attempt);
  ObservedBuilder& unformed();
  ObservedBuilder& phase(api::Phase phase, std::string reason = {});

  // ---- Its pods
  ObservedBuilder& missing(std::int64_t pod_index);
  ObservedBuilder& waiting(std::int64_t pod_index, std::string reason = "ContainerCreating", std::string message = {});
  ObservedBuilder& unscheduled(std::int64_t pod_index, std::string message);
  ObservedBuilder& ended(std::int64_t pod_index, int exit_code, std::string message = {}, std::string reason = "Error");
  ObservedBuilder& leaving(std::int64_t pod_index, Time until = start + std::chrono::seconds{120});
  ObservedBuilder& disrupted(std::int64_t pod_index, std::string reason = "EvictionByEvictionAPI");
  ObservedBuilder& on_lost_node(std::int64_t pod_index);

  // ---- Anything else
  ObservedBuilder& with(const std::function<void(plan::Observed&)>& change);

  [[nodiscard]] plan::Observed build() const { return observed_; }
  operator plan::Observed() const { return observed_; }  // NOLINT(google-explicit-constructor): reads as what it builds

 private:
  resource::Pod& pod(std::int64_t pod_index);
  void make_pods();

  plan::Observed observed_;
};

[[nodiscard]] inline ObservedBuilder an_observed(const JobBuilder& job = a_job()) {
  return ObservedBuilder{job};
}

/// The observed state when the operator reconciles `job` for the first time.
[[nodiscard]] plan::Observed first_sight(const JobBuilder& job = a_job());

}  // namespace trainyard::builders

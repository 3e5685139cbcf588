#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "api/training_job.hpp"
#include "cli/cluster_access.hpp"
#include "common/clock.hpp"

namespace trainyard::cli {

struct CheckpointRequestOptions {
  std::string job;
  std::string folder;  ///< The folder of a run on this machine; empty: trainyard-runs/<job>.
  ClusterChoice cluster;
  std::chrono::milliseconds timeout{300'000};
  bool is_sent_only = false;  ///< Do not wait for the answer.
};

/// `trainyard checkpoint JOB`: asks a job for a checkpoint, and prints where it is. A run in progress on this machine
/// is preferred to a job in the cluster that kubectl would ask. Returns the exit code.
[[nodiscard]] int request_checkpoint(const CheckpointRequestOptions& options);

/// A clock and a way to pause, for functions that wait for an answer. Tests replace both.
struct Waiting {
  const Clock& clock;
  std::function<void(std::chrono::milliseconds)> pause;
};

/// Asks for a checkpoint with the request `id`, and waits for the answer unless `options` say not to. Returns the
/// sentence to print. An error is one sentence for the user: there is no such job, the user may not edit it, it refuses
/// the request, it fails to save, or it does not answer in time.
[[nodiscard]] Result<std::string> request_in_cluster(kube::Api& api, const std::string& name_space,
                                                     const CheckpointRequestOptions& options, const std::string& id,
                                                     const Waiting& waiting);
/// As request_in_cluster(), for the run that uses `folder`. Withdraws a request that is not answered in time.
[[nodiscard]] Result<std::string> request_of_run(const std::filesystem::path& folder,
                                                 const CheckpointRequestOptions& options, const std::string& id,
                                                 const Waiting& waiting);

/// Makes `id` the checkpoint request in the job's annotation, as `kubectl annotate` would.
[[nodiscard]] Result<void> annotate_request(kube::Api& api, const std::string& name_space, const std::string& job,
                                            const std::string& id);

/// The state of a checkpoint request, for people.
struct RequestSummary {
  enum class State { waiting, saved, failed };
  State state = State::waiting;
  std::string sentence;  ///< "step 1200 saved: URI", why it failed, or what it waits for.
  bool operator==(const RequestSummary&) const = default;
};

[[nodiscard]] RequestSummary summarize_request(const api::CheckpointRequest& request);
/// The summary of the request `id`, which was put into the annotation of `job`.
[[nodiscard]] RequestSummary summarize_request(const api::TrainingJob& job, const std::string& id);

}  // namespace trainyard::cli

#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "cli/cluster_access.hpp"
#include "common/clock.hpp"

namespace trainyard::cli {

struct CheckpointRequestOptions {
  std::string job;
  std::string folder;  ///< Of a run on this machine; empty: trainyard-runs/<job>, where one is in progress.
  ClusterChoice cluster;
  std::chrono::milliseconds timeout{300'000};
  bool is_sent_only = false;  ///< The answer is not waited for.
};

/// `trainyard checkpoint JOB`: asks a job that trains for a checkpoint, and says where it is. A run in progress on this
/// machine comes first, then the cluster that kubectl would ask. Gives the exit code.
[[nodiscard]] int request_checkpoint(const CheckpointRequestOptions& options);

/// How time passes for whoever waits for an answer.
struct Waiting {
  const Clock& clock;
  std::function<void(std::chrono::milliseconds)> pause;
};

/// What is printed once the request `id` is answered, or sent where nothing else is wanted. An error is one sentence
/// for the user: the job is unknown, may not be edited, does not take the request, fails to save or gives no answer in
/// time.
[[nodiscard]] Result<std::string> request_in_cluster(kube::Api& api, const std::string& name_space,
                                                     const CheckpointRequestOptions& options, const std::string& id,
                                                     const Waiting& waiting);
/// As request_in_cluster(), for the run that works in `folder`. A request that has no answer in time is withdrawn.
[[nodiscard]] Result<std::string> request_of_run(const std::filesystem::path& folder,
                                                 const CheckpointRequestOptions& options, const std::string& id,
                                                 const Waiting& waiting);

}  // namespace trainyard::cli

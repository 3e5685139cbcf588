#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/volume_map.hpp"
#include "common/result.hpp"
#include "local/process_kubelet.hpp"

namespace trainyard::cli {

/// A TrainingJob as it can run on this machine.
struct LocalJob {
  nlohmann::json object;
  std::vector<std::string> notes;  ///< The changes to the job: one sentence each.
};

/// `job` (valid, defaults filled in) with folders in place of volume claims, without GPUs if this machine has none, and
/// with checkpoints in `checkpoint_folder` if a training job names no place for them. ErrorKind::not_found names a
/// volume claim without a folder; invalid says that this machine has too few GPUs, or names a field that cannot work
/// here.
[[nodiscard]] Result<LocalJob> adapt_to_machine(nlohmann::json job, const VolumeClaimFolders& folders,
                                                const std::vector<std::string>& gpus,
                                                const std::string& checkpoint_folder);

/// The ranks of `job` (valid, defaults filled in): replicas, or replicas x gpusPerPod.
[[nodiscard]] std::int64_t rank_count_of(const nlohmann::json& job);
/// True when `job` has strategy dp or ddp2, with which a pod has one rank for all of its GPUs.
[[nodiscard]] bool has_replicas_in_ranks(const nlohmann::json& job);

/// Lines for a terminal: how many samples an optimizer step of `job` (valid, defaults filled in) takes, and which
/// learning rates optimizer.lrScaling would give. None for a job that does not train, or whose step is one batch of one
/// rank.
[[nodiscard]] std::vector<std::string> step_lines(const nlohmann::json& job);

/// `job` with one pod for each of `rank_count` ranks, as it runs on several machines. Its pods ask for no GPUs, since
/// this machine does not know those of the others: a rank takes the GPU of its number on its machine. With dp and ddp2
/// a machine without GPUs has as many replicas on the CPU.
[[nodiscard]] nlohmann::json with_one_rank_per_pod(nlohmann::json job, std::int64_t rank_count);

/// ErrorKind::invalid when `job`, whose replicas were made `rank_count`, is no valid job: some strategies ask for
/// certain numbers of ranks.
[[nodiscard]] Result<void> check_rank_count(const nlohmann::json& job, std::int64_t rank_count);

/// `job` (valid, defaults filled in) with `device_count` pods of one rank, and with a note where that is not what it
/// asks for. Each has a GPU where `machine_has_gpus`, unless the job names the CPU. Where has_replicas_in_ranks() it
/// has one pod, whose rank has so many GPUs, or replicas on the CPU. ErrorKind::invalid when the job cannot have so
/// many.
[[nodiscard]] Result<LocalJob> with_devices(nlohmann::json job, std::int64_t device_count, bool machine_has_gpus);

/// The CRD's bound of spec.restart.application.max and spec.restart.infrastructure.max.
inline constexpr std::int64_t restarts_max_limit = 1'000'000;
/// `job` (defaults filled in) with `restarts_max` (0 to restarts_max_limit) restarts of each cause, and with a note
/// where that is not what it asks for.
[[nodiscard]] LocalJob with_restarts_max(LocalJob job, std::int64_t restarts_max);

/// Succeeds if a kubelet with `options` can start the pods of `job`. An error names what is missing, and the flag that
/// adds it.
[[nodiscard]] Result<void> check_can_run(const nlohmann::json& job, const local::ProcessKubeletOptions& options);

/// Adds one `--secret NAME=FILE`. The file has KEY=VALUE lines; empty lines and lines that begin with # are skipped.
/// ErrorKind::invalid for any other form, io if the file cannot be read. No error message holds a value.
[[nodiscard]] Result<void> add_secret(std::string_view flag, std::map<std::string, local::Variables>& secrets);

/// This process's environment for its ranks, without the variables about ranks that an outer launcher may have set.
[[nodiscard]] local::Variables inherited_environment();

/// Lets the kubelet run rank i at seats[i], where ssh reads `ssh_config`; an empty one is ssh's own. Errors: those of
/// add_own_address(), and ErrorKind::io.
[[nodiscard]] Result<void> use_seats(local::ProcessKubeletOptions& kubelet, std::vector<local::RankSeat> seats,
                                     const std::string& ssh_config);

}  // namespace trainyard::cli

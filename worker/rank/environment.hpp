#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"

/// How a process reads its environment. Code that reads settings takes an `Environment`, so that tests can pass a
/// table.
///
/// A rank's variables: rank 3 of four pods of one rank has RANK 3, LOCAL_RANK 0, WORLD_SIZE 4, MASTER_ADDR (rank 0's
/// pod) and MASTER_PORT, TRAINYARD_SPEC (what to train) and the ids of its job and attempt. The operator sets those of
/// its pod (operator/manifest/pod_environment.hpp), and the launcher those that differ between the ranks of a pod
/// (worker/launcher/rank_process.cpp). Both also set these numbers under torchrun's names (NODE_RANK, GROUP_RANK,
/// TORCHELASTIC_... and more). The operator adds the ports of Trainyard's own connections and the keys of
/// checkpoint.credentialsSecret; the launcher OMP_NUM_THREADS, GLIBC_TUNABLES and the link to itself. The table of all:
/// docs/design-worker.md, "What is in rank 3's environment?". group_environment.hpp reads a rank's place from them,
/// launch_environment.hpp from the variables of torchrun, MPI and Slurm.
namespace trainyard::rank {

/// Returns the variable's value, or nothing where the variable is not set. A variable set to "" is treated as not set,
/// because Kubernetes cannot unset one.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// Format of a program's own log, "text" or "json". Each program has its own default.
inline constexpr std::string_view env_log_format = "TRAINYARD_LOG_FORMAT";

/// Reads the environment of this process. Must not be used while another thread sets variables.
[[nodiscard]] Environment process_environment();

/// The variable's value as it is, also where it is "": for variables that other libraries read, to which an empty one
/// means something. Must not be used while another thread sets variables.
[[nodiscard]] std::optional<std::string> exact_variable(std::string_view name);

struct NumberRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// The variable `name` as a whole number, or nothing where the variable is not set. ErrorKind::invalid names the
/// variable when its value is not a whole number in `range`.
[[nodiscard]] Result<std::optional<std::int64_t>> optional_number(const Environment& environment, std::string_view name,
                                                                  NumberRange range);
[[nodiscard]] Result<std::int64_t> number_or(const Environment& environment, std::string_view name, NumberRange range,
                                             std::int64_t otherwise);

}  // namespace trainyard::rank

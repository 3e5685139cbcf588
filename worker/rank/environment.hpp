#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"

/// A rank's variables, and how a process reads them: code that reads settings takes an `Environment`, so that tests can
/// pass a table.
///
/// Numbers are those of rank 3 of four pods of one rank each. The operator sets the pod's variables
/// (operator/manifest/pod_environment.hpp), and the launcher completes them for each rank process
/// (worker/launcher/rank_process.hpp).
///   - Set by the operator for the pod, and set anew by the launcher for each rank: RANK, NODE_RANK, GROUP_RANK and
///     ROLE_RANK 3, LOCAL_RANK 0, WORLD_SIZE 4, LOCAL_WORLD_SIZE 1, MASTER_ADDR (rank 0's pod), MASTER_PORT,
///     TRAINYARD_STORE_PORT and TRAINYARD_PEER_PORT. In a pod of several ranks only the launcher sets RANK, LOCAL_RANK
///     and ROLE_RANK.
///   - Set by the operator, torchrun's other names: GROUP_WORLD_SIZE, ROLE_WORLD_SIZE, ROLE_NAME, TORCHELASTIC_{RUN_ID,
///     RESTART_COUNT, MAX_RESTARTS, USE_AGENT_STORE} and PET_{NNODES, NPROC_PER_NODE, NODE_RANK, MASTER_ADDR,
///     MASTER_PORT, RDZV_ID}.
///   - Set by the operator, Trainyard's own: TRAINYARD_SPEC (what to train), TRAINYARD_{JOB, NAMESPACE, JOB_UID,
///     ATTEMPT, STATUS_PORT, GRACE_SECONDS, GPUS_PER_POD}; TRAINYARD_NODE_NAME with GPUs or local checkpoints;
///     TRAINYARD_CPU_MILLICORES with a CPU request.
///   - Set by the user: the `env` and `envFrom` of the template's container, without variables that have one of the
///     operator's names above.
///   - Set by the operator: the keys of checkpoint.credentialsSecret, except for a job whose storage is all gs://,
///     which gets the keys as files.
///   - Set by the operator, each only where it applies and the template's `env` does not set it: PYTHONUNBUFFERED,
///     HOME, USER, TORCH_NCCL_ASYNC_ERROR_HANDLING, AWS_REGION, AWS_ENDPOINT_URL_S3, GOOGLE_APPLICATION_CREDENTIALS,
///     TPU_WORKER_ID and TPU_WORKER_HOSTNAMES.
///   - Set by the launcher, in a pod that runs trainyard-worker (a pod that runs another program has none of these):
///     OMP_NUM_THREADS, with TRAINYARD_CHOSE_THREADS 1, and GLIBC_TUNABLES, where they are not set;
///     TRAINYARD_HAS_LAUNCHER, TRAINYARD_LAUNCHER_FOLDER, TRAINYARD_RANK_LINK_FD (the link to the launcher).
/// The launcher removes TRAINYARD_REQUEST_TOKEN, which the operator gives the pods of a job with `training` and
/// `checkpoint`. What Trainyard's own variables mean, and the numbers of the ports: api/contract.hpp. All values as a
/// table: docs/design-worker.md, "What is in rank 3's environment?".
/// group_environment.hpp reads a rank's place from the variables, mpi_and_slurm.hpp from those of MPI and Slurm where
/// the operator, torchrun or the user has set none.
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

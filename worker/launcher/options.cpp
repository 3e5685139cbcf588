#include "worker/launcher/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "common/try.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view env_rank_program = "TRAINYARD_RANK_PROGRAM";
constexpr std::string_view env_heartbeat_seconds = "TRAINYARD_HEARTBEAT_SECONDS";
constexpr std::string_view env_farewell_seconds = "TRAINYARD_FAREWELL_SECONDS";
constexpr rank::NumberRange any_seconds{.min = 1, .max = 31'536'000};
constexpr rank::NumberRange farewell_seconds{.min = 1, .max = 60};  // Signals are not handled meanwhile.
constexpr std::int64_t default_grace_seconds = 30;                  // The default of Kubernetes.
constexpr milliseconds mismatch_deadline_min{6'000};  // A wait that was told is believed for 5 s (supervisor.cpp).

Result<void> read_arguments(const std::vector<std::string>& arguments, Options& options) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      options.rank_arguments.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      return {};
    }
    if (argument == "--help" || argument == "-h") {
      options.asks_for_help = true;
      continue;
    }
    if (argument != "--rank-program" && argument != "--store-program") {
      return fail(ErrorKind::invalid,
                  fmt::format("'{}' is not an option of trainyard-worker; put the rank program's arguments after --",
                              argument));
    }
    if (i + 1 == arguments.size())
      return fail(ErrorKind::invalid, fmt::format("{} needs the path of a program after it", argument));
    (argument == "--rank-program" ? options.rank_program : options.rendezvous_store_program) = arguments[++i];
  }
  return {};
}

Result<milliseconds> read_seconds(const rank::Environment& environment, std::string_view name, milliseconds otherwise,
                                  rank::NumberRange range = any_seconds) {
  const auto number =
      TRY(rank::number_or(environment, name, range, std::chrono::duration_cast<seconds>(otherwise).count()));
  return seconds{number};
}

Result<void> read_deadlines(const rank::Environment& environment, Options& options) {
  const auto rendezvous =
      TRY(read_seconds(environment, rank::env_rendezvous_seconds, options.peers.rendezvous_deadline));
  const auto heartbeat = TRY(read_seconds(environment, env_heartbeat_seconds, options.peers.silence_deadline));
  const auto hang = TRY(read_seconds(environment, rank::env_hang_seconds, options.ranks.hang_deadline));
  const auto farewell =
      TRY(read_seconds(environment, env_farewell_seconds, options.peers.farewell_to_late_peers, farewell_seconds));
  const auto grace = TRY(read_seconds(environment, contract::env_grace_seconds, seconds{default_grace_seconds}));
  options.peers.rendezvous_deadline = rendezvous;
  options.peers.silence_deadline = heartbeat;
  options.peers.farewell_to_late_peers = farewell;
  options.peers.beat_interval = std::min<milliseconds>(options.peers.beat_interval, heartbeat / 4);
  // The ranks give a collective up after that time, and report a wait after a quarter of it (watched_wait.hpp).
  const auto collective =
      TRY(read_seconds(environment, rank::env_collective_seconds, 4 * options.peers.mismatch_deadline));
  options.peers.mismatch_deadline =
      std::clamp<milliseconds>(collective / 4, mismatch_deadline_min, options.peers.mismatch_deadline);
  options.ranks.alive_deadline = heartbeat;
  options.ranks.hang_deadline = hang;
  options.ranks.stop_deadline = stop_deadline(std::chrono::duration_cast<seconds>(grace));
  return {};
}

void place(Options& options) {
  const rank::GroupEnvironment& group = options.group;
  options.ranks.rank_count = group.rank ? 1 : group.local_world_size;
  options.ranks.first_rank = group.rank.value_or(group.node_rank * group.local_world_size);
  options.peers.self = {.job = group.job,
                        .job_uid = group.job_uid,
                        .attempt = group.attempt,
                        .world_size = group.world_size,
                        .first_rank = options.ranks.first_rank,
                        .rank_count = options.ranks.rank_count};
}

/// True when the job saves checkpoints. The ranks report what is wrong with the rest of the spec.
bool has_checkpoint_uri(const rank::Environment& environment) {
  const auto spec = nlohmann::json::parse(environment(contract::env_spec).value_or(""), nullptr, false);
  const nlohmann::json::json_pointer uri{"/checkpoint/uri"};
  return spec.contains(uri) && spec.at(uri).is_string() && !spec.at(uri).get<std::string>().empty();
}

}  // namespace

std::string usage() {
  return "usage: trainyard-worker [--rank-program PATH] [--store-program PATH] [-- ARGUMENTS...]\n"
         "       trainyard-worker clean-up\n"
         "\n"
         "Starts this pod's ranks of a distributed training, watches them, and ends them together with the other ranks "
         "of the group.\n"
         "ARGUMENTS go to the rank program. The environment gives the ranks' numbers and addresses, as for "
         "torch.distributed:\n"
         "  RANK WORLD_SIZE MASTER_ADDR, or NODE_RANK LOCAL_WORLD_SIZE WORLD_SIZE MASTER_ADDR for several ranks in one "
         "pod\n"
         "  or the variables of torchrun, Open MPI's mpirun, MPICH's mpiexec and Slurm's srun (docs/launching.md)\n"
         "  TRAINYARD_STORE_PORT            port of the rendezvous store\n"
         "  TRAINYARD_PEER_PORT             port of rank 0's launcher, to which the other launchers connect\n"
         "  TRAINYARD_STATUS_PORT           port of /status and /metrics\n"
         "  TRAINYARD_RANK_PROGRAM          rank program without --rank-program (default: trainyard-rank beside this "
         "program)\n"
         "  TRAINYARD_RENDEZVOUS_SECONDS    time in which the group must form (default: 600)\n"
         "  TRAINYARD_STORAGE_PATIENCE_SECONDS   how long a start retries a storage that fails or refuses (default: "
         "120)\n"
         "  TRAINYARD_STORAGE_PART_MIB      part size of large objects in remote storage, 5 to 5120 (default: by the "
         "object's size)\n"
         "  TRAINYARD_STORAGE_CONNECTIONS   connections for such an object, 1 to 32 (default: by the object's size)\n"
         "  TRAINYARD_HEARTBEAT_SECONDS     silence after which a rank or launcher is lost (default: 10); raise it for "
         "a debugger\n"
         "  TRAINYARD_HANG_SECONDS          time without progress after which a rank that trains or validates is "
         "killed (default: 600)\n"
         "  TRAINYARD_COLLECTIVE_SECONDS    time after which a rank gives up a collective that no launcher calls "
         "failed "
         "(default:\n"
         "                                  1800, or three times TRAINYARD_HANG_SECONDS where that is more)\n"
         "  TRAINYARD_FAREWELL_SECONDS      how long rank 0's launcher stays after a failure, to tell the launchers "
         "that have not\n"
         "                                  connected yet, at most 60 (default: 1)\n"
         "  TRAINYARD_GRACE_SECONDS         time from SIGTERM until the pod is killed (default: 30)\n"
         "  TRAINYARD_GPUS_PER_POD          GPUs that each rank must see: with fewer it ends; 0: train on the CPU\n"
         "  TRAINYARD_CUDA_MODULE           path of libtrainyard_cuda.so (default: looked for beside the programs)\n"
         "  TRAINYARD_CPU_MILLICORES        the container's CPU request, which sets the number of threads where there "
         "is no CPU limit\n"
         "  OMP_NUM_THREADS                 threads of a rank (default: by the CPU limit or request)\n"
         "  TRAINYARD_REQUEST_TOKEN         secret with which rank 0 is asked for a checkpoint: POST /checkpoint on "
         "the status port\n"
         "\n"
         "clean-up removes what the job of TRAINYARD_NAMESPACE, TRAINYARD_JOB and TRAINYARD_JOB_UID has saved under "
         "the checkpoint.uri\n"
         "of TRAINYARD_SPEC, snapshots included. The operator runs it when such a job is deleted (checkpoint.onDelete: "
         "Delete).\n";
}

Result<Options> parse_options(const std::vector<std::string>& arguments, const rank::Environment& environment,
                              const std::string& folder) {
  Options options;
  options.rank_program = environment(env_rank_program).value_or(folder + "/trainyard-rank");
  options.rendezvous_store_program = folder + "/trainyard-store";
  options.folder = folder;
  TRY(read_arguments(arguments, options));
  if (options.asks_for_help) return options;
  options.group = TRY(rank::parse_group_environment(environment));
  TRY(read_deadlines(environment, options));
  place(options);
  options.checkpoint_requests = {.token = environment(contract::env_request_token),
                                 .is_rank0 = options.ranks.first_rank == 0,
                                 .has_checkpoint_uri = has_checkpoint_uri(environment)};
  return options;
}

milliseconds stop_deadline(seconds grace) {
  constexpr milliseconds margin_max{5'000};
  const milliseconds all = grace;
  return all - std::min<milliseconds>(margin_max, all / 4);
}

}  // namespace trainyard::launcher

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

/// The contract between the operator and the worker. Both sides include this file, and no other file repeats its
/// values.
namespace trainyard::contract {

inline constexpr std::string_view api_group = "trainyard.dev";
inline constexpr std::string_view api_version = "v1alpha1";
inline constexpr std::string_view worker_container = "worker";

// Labels on every object that the operator owns. `job` is for people and selectors; ownership is decided by UID.
inline constexpr std::string_view label_job = "trainyard.dev/job";
inline constexpr std::string_view label_attempt = "trainyard.dev/attempt";
inline constexpr std::string_view label_rank = "trainyard.dev/rank";  ///< The pod's index in the group (NODE_RANK).

// The rank environment, process level, in the words of torch.distributed and torchrun. Pods of several ranks
// (gpusPerPod > 1, unless the strategy is dp or ddp2) get no RANK, LOCAL_RANK and ROLE_RANK: the launcher in the pod
// sets them for each rank process.
inline constexpr std::string_view env_master_addr = "MASTER_ADDR";
inline constexpr std::string_view env_master_port = "MASTER_PORT";
inline constexpr std::string_view env_rank = "RANK";
inline constexpr std::string_view env_local_rank = "LOCAL_RANK";
inline constexpr std::string_view env_world_size = "WORLD_SIZE";
inline constexpr std::string_view env_local_world_size = "LOCAL_WORLD_SIZE";
inline constexpr std::string_view env_node_rank = "NODE_RANK";
inline constexpr std::string_view env_group_rank = "GROUP_RANK";
inline constexpr std::string_view env_group_world_size = "GROUP_WORLD_SIZE";  ///< Pods of the group.
inline constexpr std::string_view env_role_name = "ROLE_NAME";
inline constexpr std::string_view env_role_rank = "ROLE_RANK";  ///< RANK: there is one role.
inline constexpr std::string_view env_role_world_size = "ROLE_WORLD_SIZE";
inline constexpr std::string_view env_elastic_run_id = "TORCHELASTIC_RUN_ID";  ///< One for all attempts of a job.
/// Attempts of this job before this one.
inline constexpr std::string_view env_elastic_restart_count = "TORCHELASTIC_RESTART_COUNT";
/// spec.restart.application.max. Lost pods and nodes may cause more restarts than that.
inline constexpr std::string_view env_elastic_max_restarts = "TORCHELASTIC_MAX_RESTARTS";
/// "False": rank 0's process hosts the rendezvous store on MASTER_PORT. Only torchrun's own agent says "True".
inline constexpr std::string_view env_elastic_use_agent_store = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr std::string_view env_nccl_async_error_handling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr std::string_view env_pet_nnodes = "PET_NNODES";
inline constexpr std::string_view env_pet_nproc_per_node = "PET_NPROC_PER_NODE";
inline constexpr std::string_view env_pet_node_rank = "PET_NODE_RANK";
inline constexpr std::string_view env_pet_master_addr = "PET_MASTER_ADDR";
inline constexpr std::string_view env_pet_master_port = "PET_MASTER_PORT";
/// torchrun passes this value to its ranks as TORCHELASTIC_RUN_ID; without it they read "none" there.
inline constexpr std::string_view env_pet_rdzv_id = "PET_RDZV_ID";

// Trainyard's own variables, for trainyard-worker.
inline constexpr std::string_view env_job = "TRAINYARD_JOB";
inline constexpr std::string_view env_namespace = "TRAINYARD_NAMESPACE";
inline constexpr std::string_view env_job_uid = "TRAINYARD_JOB_UID";
inline constexpr std::string_view env_attempt = "TRAINYARD_ATTEMPT";  ///< From 1.
/// JSON {"training": ..., "checkpoint": ...}: these two parts of the job's spec, defaults filled in. The data's `path`
/// is already the path inside the container (the volume claim's mount joined with it).
inline constexpr std::string_view env_spec = "TRAINYARD_SPEC";
inline constexpr std::string_view env_store_port =
    "TRAINYARD_STORE_PORT";  ///< Rank 0's rendezvous store, on MASTER_ADDR.
inline constexpr std::string_view env_peer_port =
    "TRAINYARD_PEER_PORT";  ///< Heartbeats between launchers: rank 0's listens, on MASTER_ADDR.
inline constexpr std::string_view env_status_port = "TRAINYARD_STATUS_PORT";  ///< This pod's /status and /metrics.
/// A secret. A client that has it may ask this pod for a checkpoint (POST /checkpoint below).
inline constexpr std::string_view env_request_token = "TRAINYARD_REQUEST_TOKEN";
inline constexpr std::string_view env_grace_seconds =
    "TRAINYARD_GRACE_SECONDS";  ///< terminationGracePeriodSeconds of this pod.
/// The GPUs that each rank's pod was promised: spec.gpusPerPod. A rank that sees fewer ends with exit_device; with 0 it
/// trains on the CPU even if the driver shows GPUs. Absent or empty: nothing was promised, and the rank uses what the
/// driver shows.
inline constexpr std::string_view env_gpus_per_pod = "TRAINYARD_GPUS_PER_POD";
/// The container's CPU request in thousandths of a processor; absent if the template has none. Ranks on one node divide
/// the node's processors by it.
inline constexpr std::string_view env_cpu_millicores = "TRAINYARD_CPU_MILLICORES";
/// The node's name; set if checkpoint.local is set or GPUs are promised. Ranks with one node name share that node's
/// folder of copies. If the variable is absent, the worker takes the host's name.
inline constexpr std::string_view env_node_name = "TRAINYARD_NODE_NAME";
inline constexpr std::string_view env_termination_log =
    "TRAINYARD_TERMINATION_LOG";  ///< Where the termination message goes; default below.

// Credentials and S3 settings reach the worker as the clouds' own standard variables (AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL_S3; AZURE_STORAGE_...), from
// `checkpoint.credentialsSecret` by envFrom. Google's clients want a file: with a gs:// URI the Secret is mounted.
inline constexpr std::string_view google_credentials_folder = "/var/run/secrets/trainyard/google";
inline constexpr std::string_view google_credentials_variable = "GOOGLE_APPLICATION_CREDENTIALS";
inline constexpr std::string_view google_credentials_file = "credentials.json";  ///< The Secret's key.

// A pod that removes a deleted job's checkpoints runs this program with the argument `clean_up_command` alone. It gets
// the variables TRAINYARD_JOB, TRAINYARD_NAMESPACE, TRAINYARD_JOB_UID, TRAINYARD_SPEC (with "checkpoint" alone) and
// TRAINYARD_ATTEMPT. The attempt is one more than the job's last attempt, so that the clean-up fences ranks of that
// attempt that may still run. The program ends with 0 when nothing of the job is left, and with 93 when another try
// cannot help.
inline constexpr std::string_view worker_program = "trainyard-worker";
/// The values of training.model.name that the worker's own image knows. Users' own images may know others.
inline constexpr std::array<std::string_view, 5> built_in_models{"deepliif", "fashion_cnn", "gpt2", "resnet18",
                                                                 "resnet50"};
inline constexpr std::string_view clean_up_command = "clean-up";

inline constexpr std::string_view default_role = "default";            ///< torchrun's name for the one role.
inline constexpr std::string_view torch_false = "False";               ///< As Python writes it.
inline constexpr std::string_view torch_true = "True";                 ///< As Python writes it.
inline constexpr std::string_view default_async_error_handling = "1";  ///< torchrun's default.

inline constexpr std::uint16_t default_master_port = 29500;
inline constexpr std::uint16_t default_store_port = 29501;
inline constexpr std::uint16_t default_peer_port = 29502;
inline constexpr std::uint16_t default_status_port = 29503;

inline constexpr std::string_view default_termination_log = "/dev/termination-log";
inline constexpr std::string_view data_mount_path = "/data";  ///< Where training.data.volumeClaim is mounted.
inline constexpr std::int64_t grace_seconds_with_checkpoint = 120;

// Exit codes of our processes. Codes 1 to 89 belong to the application, codes from 128 on to the system.
inline constexpr int exit_success = 0;
inline constexpr int exit_failure = 1;     ///< The training code failed: charged to the application.
inline constexpr int exit_peer_lost = 90;  ///< Another rank died or hung: never the cause.
inline constexpr int exit_preempted = 91;  ///< Asked to stop (SIGTERM), state saved where a checkpoint URI is set.
inline constexpr int exit_fenced = 92;     ///< A newer attempt of the same job owns the checkpoints.
inline constexpr int exit_do_not_restart =
    93;  ///< A restart cannot help: wrong spec, wrong data, missing bucket. NVRx uses the same number.
inline constexpr int exit_rendezvous = 94;  ///< The group did not come together before the deadline.
inline constexpr int exit_hang = 95;  ///< The rank made no progress and was killed by its launcher; or all ranks wait
                                      ///< for each other in different collectives.
inline constexpr int exit_storage = 96;  ///< Storage failed for longer than it is retried.
inline constexpr int exit_device = 97;   ///< A GPU of the node is missing or has failed. Another node may do.

// The termination message of a pod of ours is one JSON object, at most 4096 bytes:
//   {"reason": "PeerLost", "exitCode": 90, "rank": 1, "message": "...", "culprit": 0, "culpritExitCode": 93,
//    "progress": {"step": 120, ...}}
// `rank` is the global rank that the message is about. `culprit` is the global rank that it names as the cause, if it
// knows one; `culpritExitCode` is the culprit's exit code, if the culprit's launcher has reported it. `progress` is the
// last report of the pod's first rank, with the fields of /status, the `checkpointRequest` included: without it the
// operator would miss everything after its last poll.
inline constexpr std::size_t termination_message_bytes_max = 4096;

// `GET /status` on the status port answers one JSON object. Fields that do not apply yet are left out. A number that is
// not finite is null: JSON has no other word.
//   {"uid", "attempt", "rank", "worldSize",
//    "phase": "Rendezvous" | "Loading" | "Training" | "Validating" | "Saving" | "Done",
//    "epoch", "epochs", "step", "totalSteps", "loss", "samplesPerSecond", "etaSeconds", "accuracy",
//    "stepTimes": {"data", "forward", "backward", "communication", "optimizer", "checkpoint"}: this rank's milliseconds
//    per step,
//    "checkpoint": {"step", "uri", "time", "bytes", "durationSeconds"}, "checkpointError": why the last save failed,
//    "checkpointRequest": the request record below, "waitingFor": "rank 1 of 2 has not come (12 s)"}
inline constexpr std::string_view status_path = "/status";

// The request record says what became of the last request; absent before the first:
//   {"id", "then": "continue" | "exit", "state": "Pending" | "Done" | "Failed", "step", "uri", "message"}
// `step` and `uri` are there once the request is Done, `message` when it Failed.

// `POST /checkpoint` on rank 0's status port asks for a checkpoint of the present state, with
// `Authorization: Bearer <TRAINYARD_REQUEST_TOKEN>` and the body {"id": ..., "then": "continue" | "exit"}; `then` may
// be left out: continue. All ranks save the same step; with "exit" they then end as on SIGTERM. The request stays
// Pending until training begins, and while another checkpoint is being written; then it gets its own. If rank 0 ends
// before the request is answered, the request is lost.
inline constexpr std::string_view checkpoint_request_path = "/checkpoint";

// Every answer to `POST /checkpoint` is a JSON object:
//   202 {"id", "state": "Pending"}   accepted
//   200 {"id", "then", "state", ...} this id was accepted last: its request record as in /status
//   400 {"error"}                    the body is wrong
//   401 {"error"}                    the token is wrong or missing
//   403 {"error"}                    TRAINYARD_REQUEST_TOKEN is not set in this pod: it takes no requests
//   409 {"error", "id"}              the request `id` is still Pending
//   409 {"error"}                    not rank 0's pod, no checkpoint URI, or training has ended

inline constexpr std::string_view checkpoint_request_id_pattern = "[A-Za-z0-9._-]{1,63}";
inline constexpr std::size_t checkpoint_request_id_bytes_max = 63;  ///< Longest id that the pattern allows.
inline constexpr std::size_t checkpoint_request_bytes_max = 1024;   ///< Limit of the request's body.

}  // namespace trainyard::contract

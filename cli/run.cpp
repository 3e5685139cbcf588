#include "cli/run.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "api/contract.hpp"
#include "api/validation/validate.hpp"
#include "cli/command_name.hpp"
#include "cli/console.hpp"
#include "cli/errors.hpp"
#include "cli/job_file.hpp"
#include "cli/job_run.hpp"
#include "cli/local_job.hpp"
#include "cli/nothing_left.hpp"
#include "cli/stop_signals.hpp"
#include "cli/stream_choice.hpp"
#include "common/exit_codes.hpp"
#include "common/try.hpp"
#include "local/container.hpp"
#include "local/gpus.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// This process's environment for its ranks, without the variables about ranks that an outer launcher may have set.
local::Variables inherited_environment() {
  // The pod's own variables replace inherited ones, but a program would also read a launcher's variable that no pod
  // sets.
  local::Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name.starts_with("TORCHELASTIC_") || name.starts_with("PET_") || name.starts_with("TRAINYARD_")) {
      // Users may set the deadlines and the rank program.
      if (name != "TRAINYARD_RANK_PROGRAM" && !name.ends_with("_SECONDS")) continue;
    }
    variables.emplace(name, text.substr(equals + 1));
  }
  for (const auto* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                           "NODE_RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"})
    variables.erase(name);
  return variables;
}

/// The environment variable `name` of this process; empty: it is not set.
std::optional<std::string> environment_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>{value};
}

/// The worker program: `wanted` if given, else trainyard-worker in our own program's folder, else in PATH.
std::string find_worker(const std::string& wanted) {
  if (!wanted.empty()) return fs::absolute(wanted).string();
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / "trainyard-worker";
  return fs::exists(beside, error) ? beside.string() : "trainyard-worker";
}

bool is_found(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const std::string path = environment_of("PATH").value_or("");
  for (std::size_t begin = 0; begin < path.size();) {
    const auto end = std::min(path.find(':', begin), path.size());
    if (::access((path.substr(begin, end - begin) + "/" + program).c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

struct Machine {
  local::ProcessKubeletOptions kubelet;
  ClaimFolders claims;
  std::vector<Host> hosts;                 ///< Empty: all ranks run on this machine.
  std::optional<std::int64_t> rank_count;  ///< RunOptions::rank_count.
  /// How many devices RunOptions::devices chooses for each job. Empty: as many as the job asks for.
  std::optional<std::int64_t> device_count;
};

/// Leaves `machine` the devices that are chosen. Without GPUs a number of devices is one of processes on the CPU.
Result<void> choose_devices(const local::DeviceChoice& choice, Machine& machine) {
  std::vector<std::string>& gpus = *machine.kubelet.gpus;
  if (gpus.empty() && choice.kind == local::DeviceChoice::Kind::first) {
    machine.device_count = choice.count;
    return {};
  }
  gpus = TRY(local::choose_gpus(choice, gpus));
  machine.device_count = static_cast<std::int64_t>(gpus.size());
  return {};
}

/// Leaves `machine` the GPUs that no other process uses, as many of them as `choice` asks for.
Result<void> choose_free_gpus(const std::optional<local::DeviceChoice>& choice, Machine& machine) {
  std::vector<std::string>& gpus = *machine.kubelet.gpus;
  if (!gpus.empty()) {
    auto free = TRY(local::find_free_gpus(gpus));
    const auto asked = choice && choice->kind == local::DeviceChoice::Kind::first ? choice->count : 1;
    if (static_cast<std::int64_t>(free.size()) < asked) {
      return fail(ErrorKind::unavailable,
                  fmt::format("{} GPU{} asked for, and other processes use {} of the {} of this machine (nvidia-smi "
                              "lists them)",
                              asked, asked == 1 ? " is" : "s are", gpus.size() - free.size(), gpus.size()));
    }
    gpus = std::move(free);
  }
  return choice ? choose_devices(*choice, machine) : Result<void>{};
}

/// Lets the kubelet run rank i at seats[i].
Result<void> use_seats(local::ProcessKubeletOptions& kubelet, std::vector<local::RankSeat> seats,
                       const std::string& ssh_config) {
  TRY(add_own_address(seats));
  kubelet.seats = std::move(seats);
  kubelet.gpus.reset();
  kubelet.ssh_config = ssh_config.empty() ? "" : fs::absolute(ssh_config).string();
  std::error_code error;
  kubelet.self_program = fs::read_symlink("/proc/self/exe", error).string();
  if (error) return fail(ErrorKind::io, fmt::format("reading /proc/self/exe: {}", error.message()));
  return {};
}

bool has_rank_here(const std::vector<local::RankSeat>& seats) {
  return seats.empty() || !std::ranges::all_of(seats, &local::RankSeat::is_remote);
}

Result<Machine> describe_machine(const RunOptions& options) {
  Machine machine;
  for (const auto& flag : options.volumes) {
    TRY(add_claim_folder(flag, machine.claims));
  }
  for (const auto& flag : options.secrets) {
    TRY(add_secret(flag, machine.kubelet.secrets));
  }
  machine.kubelet.volumes = machine.claims;
  machine.kubelet.inherited = inherited_environment();
  machine.kubelet.worker_program = find_worker(options.worker);
  machine.kubelet.gpus = local::find_gpus(environment_of("CUDA_VISIBLE_DEVICES"));
  machine.rank_count = options.rank_count;
  return machine;
}

/// A job that can run here, and the folders that it needs.
struct Preparation {
  LocalJob job;
  std::vector<std::string> new_folders;
};

/// Each rank writes its part of a checkpoint.
void add_note_on_files(LocalJob& job) {
  const std::string uri = job.object.at("spec").value("/checkpoint/uri"_json_pointer, "");
  if (!uri.starts_with("file://")) return;
  job.notes.push_back(fmt::format(
      "Checkpoints are in {}: each host needs this folder, and it must be the same one (such as an NFS mount). "
      "checkpoint.uri may name an object store instead.",
      uri));
}

/// The seats of the job's ranks; empty where no hosts are named.
Result<std::vector<local::RankSeat>> seats_of(const json& job, const Machine& machine) {
  if (machine.hosts.empty()) return std::vector<local::RankSeat>{};
  const auto gpus = job.at("spec").value("gpusPerPod", std::int64_t{1});
  const bool has_all_gpus = gpus > 0 && has_replicas_in_ranks(job);
  std::vector<Host> hosts = machine.hosts;
  if (has_all_gpus) hosts = TRY(with_one_rank_each(std::move(hosts), gpus));
  auto seats = TRY(seat_ranks(hosts, machine.rank_count.value_or(rank_count_of(job))));
  // A rank that finds fewer GPUs on its host than the host's ranks need ends, as in a pod.
  for (local::RankSeat& seat : seats) {
    if (gpus == 0) break;
    seat.variables[std::string{contract::env_gpus_per_pod}] =
        has_all_gpus ? std::to_string(gpus) : seat.variables.at(std::string{contract::env_local_world_size});
  }
  return seats;
}

/// Changes nothing on this machine, so that a refused job leaves no trace.
Result<Preparation> prepare(const Document& document, const Machine& machine, const std::vector<local::RankSeat>& seats,
                            const fs::path& checkpoints) {
  TRY(check_claims(document.object, machine.claims));
  LocalJob asked{.object = document.object, .notes = {}};
  if (!seats.empty()) {
    const auto rank_count = static_cast<std::int64_t>(seats.size());
    asked.object = with_one_rank_per_pod(document.object, rank_count);
    TRY(check_rank_count(asked.object, rank_count));
  }
  if (machine.device_count)
    asked = TRY(with_devices(document.object, *machine.device_count, !machine.kubelet.gpus->empty()));
  auto job = TRY(adapt_to_machine(asked.object, machine.claims, *machine.kubelet.gpus, checkpoints.string()));
  job.notes.insert(job.notes.begin(), asked.notes.begin(), asked.notes.end());
  if (!std::ranges::none_of(seats, &local::RankSeat::is_remote)) add_note_on_files(job);
  TRY(check_can_run(job.object, machine.kubelet));
  auto new_folders = TRY(missing_folders(document.object, job.object, machine.claims));
  if (job.object.at("spec").contains("training") && has_rank_here(seats) && !is_found(machine.kubelet.worker_program)) {
    return fail(
        ErrorKind::not_found,
        fmt::format("the program {} was not found; name it with --worker, or build it and use "
                    "build/release/bin/trainyard: scripts/setup build && cmake --preset release && "
                    "cmake --build build/release --target trainyard trainyard-worker trainyard-rank trainyard-store",
                    machine.kubelet.worker_program));
  }
  return Preparation{.job = std::move(job), .new_folders = std::move(new_folders)};
}

int run_document(const Document& document, const Machine& machine, const std::string& ssh_config,
                 const fs::path& folder_path, Console& console, const StopSignals& signals) {
  const auto seats = seats_of(document.object, machine);
  if (!seats) return report(fail(title_of(document), seats.error()).value());
  const auto prepared = prepare(document, machine, *seats, RunFolder::checkpoints_in(folder_path));
  if (!prepared) return report(fail(title_of(document), prepared.error()).value());
  const auto folder = RunFolder::open(folder_path, SystemClock{}.now());
  if (!folder) return report(folder.error());
  for (const auto& path : prepared->new_folders) {
    std::error_code error;
    if (fs::create_directories(path, error); error)
      return report({.message = fmt::format("cannot create the folder {}: {}", path, error.message())});
  }
  const json& spec = prepared->job.object.at("spec");
  const std::string end = read_nothing_left_line(prepared->job.object, RunFolder::checkpoints_in(folder_path).string());
  if (!end.empty()) console.print(end);
  for (const auto& note : prepared->job.notes) console.print(note);
  const std::int64_t ranks = rank_count_of(prepared->job.object);
  console.print(fmt::format("{}: {} process{} on {}, in {}", document.name(), ranks, ranks == 1 ? "" : "es",
                            seats->empty() ? "this machine" : to_string(machine.hosts), folder->path().string()));
  JobRunOptions options{.kubelet = machine.kubelet, .shown_logs = {}};
  if (!seats->empty()) {
    if (const auto used = use_seats(options.kubelet, *seats, ssh_config); !used) return report(used.error());
  }
  options.kubelet.log_folder = folder->logs();
  // A training job's status has its progress. Other jobs show nothing but their output.
  if (!spec.contains("training")) options.shown_logs.push_back({.rank = 0});
  return run_job(prepared->job.object, *folder, std::move(options),
                 {.messages = console, .output = console, .error = console}, signals);
}

/// Refuses two jobs with the same name: they would resume from each other's checkpoints.
Result<void> check_names(const std::vector<Document>& jobs) {
  std::set<std::string> names;
  for (const auto& job : jobs) {
    if (!names.insert(job.name()).second)
      return fail(ErrorKind::invalid, fmt::format("{}: an earlier job in the file has the same name", title_of(job)));
  }
  return {};
}

json command_job(const RunCommandOptions& options, const std::string& name) {
  return {
      {"apiVersion", "trainyard.dev/v1alpha1"},
      {"kind", "TrainingJob"},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"replicas", options.processes},
        {"gpusPerPod", 0},  // As under torchrun: every rank sees all GPUs, and LOCAL_RANK chooses one.
        {"restart",
         {{"application", {{"max", options.restarts_max}}},
          // --max-restarts is the limit for both, since a user's command may end with any exit code.
          {"infrastructure", {{"max", options.restarts_max}}},
          {"backoff", {{"initial", "0s"}, {"max", "0s"}}}}},
        {"template",
         {{"spec",
           {{"containers", json::array({{{"name", "worker"}, {"image", "none"}, {"command", options.command}}})}}}}}}}};
}

/// The variable `name` with this process's value or, if it has none, with `torchruns`, which torchrun would set.
std::pair<const std::string, std::string> own_or_torchruns(std::string_view name, std::string_view torchruns) {
  const std::string key{name};
  return {key, environment_of(key.c_str()).value_or(std::string{torchruns})};
}

/// The variables that torchrun sets for `processes` ranks on one node. To the operator they are pods with one rank
/// each.
local::Variables one_node_environment(std::int64_t processes) {
  const std::string count = std::to_string(processes);
  return {{"LOCAL_RANK", "$(RANK)"},
          {"LOCAL_WORLD_SIZE", count},
          {"NODE_RANK", "0"},
          {"GROUP_RANK", "0"},
          {"GROUP_WORLD_SIZE", "1"},
          {"PET_NNODES", "1"},
          {"PET_NODE_RANK", "0"},
          {"PET_NPROC_PER_NODE", count},
          own_or_torchruns(contract::env_nccl_async_error_handling, contract::default_async_error_handling),
          // Empty, not 0: despite gpusPerPod 0 every rank sees all GPUs of this machine, if there are any.
          {std::string{contract::env_gpus_per_pod}, ""}};
}

/// The seats of a command's ranks on the hosts that `options` name; empty: on this machine.
Result<std::vector<local::RankSeat>> command_seats(const RunCommandOptions& options) {
  const auto hosts = TRY(read_hosts(options.hosts));
  if (hosts.empty()) return std::vector<local::RankSeat>{};
  return seat_ranks(hosts, options.processes);
}

std::vector<FollowedLog> shown_logs(const RunCommandOptions& options, const StreamChoice& redirects,
                                    const StreamChoice& tee) {
  std::vector<FollowedLog> shown;
  for (std::int64_t rank = 0; rank < options.processes; ++rank) {
    const auto add = [&](local::LogStream stream, bool is_redirected, bool is_teed) {
      if (is_redirected && !is_teed) return;
      shown.push_back({.rank = rank, .stream = stream, .prefix = is_teed ? fmt::format("[rank{}]: ", rank) : ""});
    };
    add(local::LogStream::output, redirects.has_output(rank), tee.has_output(rank));
    add(local::LogStream::error, redirects.has_error(rank), tee.has_error(rank));
  }
  return shown;
}

}  // namespace

int run_file(const RunOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // The ranks go on when nobody reads our output any more.
  auto hosts = read_hosts(options.hosts);
  if (!hosts) {
    std::fprintf(stderr, "error: %s\n", hosts.error().message.c_str());
    return exit_usage;
  }
  std::optional<local::DeviceChoice> devices;
  if (options.devices) {
    const auto choice = local::parse_devices(*options.devices);
    if (!choice) {
      std::fprintf(stderr, "error: --devices: %s\n", choice.error().message.c_str());
      return exit_usage;
    }
    devices = *choice;
  }
  if (options.auto_select_gpus && devices && devices->kind == local::DeviceChoice::Kind::listed) {
    std::fprintf(stderr, "error: --auto-select-gpus chooses the GPUs itself: let --devices say how many, or -1\n");
    return exit_usage;
  }
  auto machine = describe_machine(options);
  if (!machine) return report(machine.error());
  if (options.auto_select_gpus) {
    if (const auto chosen = choose_free_gpus(devices, *machine); !chosen)
      return report(fail("--auto-select-gpus", chosen.error()).value());
  } else if (devices) {
    if (const auto chosen = choose_devices(*devices, *machine); !chosen)
      return report(fail("--devices", chosen.error()).value());
  }
  machine->hosts = *std::move(hosts);
  const auto jobs = read_valid_jobs(options.file);
  if (!jobs) return report(jobs.error());
  if (auto apart = check_names(*jobs); !apart) return report(apart.error());
  const StopSignals signals;
  Console console{stdout, terminal_width(stdout)};
  for (const auto& job : *jobs) {
    // The signal may have come just after the previous job ended.
    if (signals.count() > 0) return 128 + signals.first();
    fs::path folder = options.folder.empty() ? default_run_folder(job.name()) : fs::path{options.folder};
    if (!options.folder.empty() && jobs->size() > 1) folder /= job.name();
    if (const int exit_code = run_document(job, *machine, options.hosts.ssh_config, folder, console, signals);
        exit_code != 0)
      return exit_code;
  }
  return 0;
}

int run_command(const RunCommandOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // The ranks go on when nobody reads our output any more.
  const StopSignals signals;
  const auto redirects = StreamChoice::parse(options.redirects);
  const auto tee = StreamChoice::parse(options.tee);
  if (!redirects || !tee) {
    std::fprintf(stderr, "error: %s %s\n", redirects ? "--tee" : "--redirects",
                 (redirects ? tee.error() : redirects.error()).message.c_str());
    return exit_usage;
  }
  auto seats = command_seats(options);
  if (!seats) {
    std::fprintf(stderr, "error: %s\n", seats.error().message.c_str());
    return exit_usage;
  }
  const std::string name = command_name(options.command);
  const json job = api::with_defaults(command_job(options, name));
  if (const auto violations = api::validate_training_job(job); !violations.empty()) {
    std::fprintf(stderr, "error: %s\n", api::to_string(violations.front()).c_str());
    return exit_usage;
  }
  const fs::path usual_folder = default_run_folder(name);
  const Time now = SystemClock{}.now();
  const auto folder =
      options.log_folder.empty() ? RunFolder::open_free(usual_folder, now) : RunFolder::open(options.log_folder, now);
  if (!folder) return report(folder.error());
  if (const fs::path used = folder->path().filename(); options.log_folder.empty() && used != usual_folder.filename()) {
    std::fprintf(stderr, "note: another run uses %s; the logs of this run are in %s\n", usual_folder.c_str(),
                 folder->path().c_str());
  }
  JobRunOptions run{.kubelet = {.log_folder = folder->logs(),
                                .has_separate_streams = true,
                                .inherited = inherited_environment(),
                                .overrides = one_node_environment(options.processes)},
                    .shown_logs = shown_logs(options, *redirects, *tee),
                    .is_quiet = true};
  if (!seats->empty()) {
    if (const auto used = use_seats(run.kubelet, *std::move(seats), options.hosts.ssh_config); !used)
      return report(used.error());
  }
  // As torchrun does: ranks that each use all processors would slow each other down.
  if (options.processes > 1) run.kubelet.inherited.emplace("OMP_NUM_THREADS", "1");
  // Standard output is for the ranks only.
  Console output{stdout, 0};
  Console error{stderr, 0};
  return run_job(job, *folder, std::move(run), {.messages = error, .output = output, .error = error}, signals);
}

}  // namespace trainyard::cli

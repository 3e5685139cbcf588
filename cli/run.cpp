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
#include "cli/console.hpp"
#include "cli/errors.hpp"
#include "cli/job_file.hpp"
#include "cli/job_run.hpp"
#include "cli/local_job.hpp"
#include "cli/nothing_left.hpp"
#include "cli/stop_signals.hpp"
#include "common/exit_codes.hpp"
#include "common/try.hpp"
#include "local/container.hpp"
#include "local/gpus.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

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
  bool is_worker_named = false;  ///< RunOptions::worker names the kubelet's worker_program.
  VolumeClaimFolders volume_claims;
  std::vector<Host> hosts;                   ///< Empty: all ranks run on this machine.
  std::optional<std::int64_t> rank_count;    ///< RunOptions::rank_count.
  std::optional<std::int64_t> restarts_max;  ///< RunOptions::restarts_max.
  /// How many devices RunOptions::devices chooses for each job. Empty: as many as the job asks for.
  std::optional<std::int64_t> device_count;
};

/// Leaves `machine` the devices that are chosen. Without GPUs a number of devices is one of processes on the CPU.
Result<void> choose_devices(const api::DeviceChoice& choice, Machine& machine) {
  std::vector<std::string>& gpus = *machine.kubelet.gpus;
  if (gpus.empty() && choice.kind == api::DeviceChoice::Kind::first) {
    machine.device_count = choice.count;
    return {};
  }
  gpus = TRY(local::choose_gpus(choice, gpus));
  machine.device_count = static_cast<std::int64_t>(gpus.size());
  return {};
}

/// Leaves `machine` the GPUs that no other process uses, as many of them as `choice` asks for.
Result<void> choose_free_devices(const std::optional<api::DeviceChoice>& choice, Machine& machine) {
  std::vector<std::string>& gpus = *machine.kubelet.gpus;
  if (gpus.empty()) return choice ? choose_devices(*choice, machine) : Result<void>{};
  auto free = TRY(local::find_free_gpus(gpus));
  gpus = TRY(local::choose_free_gpus(choice, std::move(free), gpus.size()));
  if (choice) machine.device_count = static_cast<std::int64_t>(gpus.size());
  return {};
}

bool has_rank_here(const std::vector<local::RankSeat>& seats) {
  return seats.empty() || !std::ranges::all_of(seats, &local::RankSeat::is_remote);
}

Result<Machine> describe_machine(const RunOptions& options) {
  Machine machine;
  for (const auto& flag : options.volumes) {
    TRY(add_volume_claim_folder(flag, machine.volume_claims));
  }
  for (const auto& flag : options.secrets) {
    TRY(add_secret(flag, machine.kubelet.secrets));
  }
  machine.kubelet.volumes = machine.volume_claims;
  machine.kubelet.inherited = inherited_environment();
  machine.kubelet.worker_program = find_worker(options.worker);
  machine.is_worker_named = !options.worker.empty();
  machine.kubelet.gpus = local::find_gpus(environment_of("CUDA_VISIBLE_DEVICES"));
  machine.rank_count = options.rank_count;
  machine.restarts_max = options.restarts_max;
  return machine;
}

std::string program_not_found(const Machine& machine) {
  if (machine.is_worker_named) {
    return fmt::format(
        "the program {}, which --worker names, was not found, or cannot be executed: build it first, or correct the "
        "path",
        machine.kubelet.worker_program);
  }
  return fmt::format(
      "the program {} was not found; name it with --worker, or build it and use build/release/bin/trainyard: "
      "scripts/setup build && cmake --preset release && "
      "cmake --build build/release --target trainyard trainyard-worker trainyard-rank trainyard-store",
      machine.kubelet.worker_program);
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
  TRY(check_volume_claims(document.object, machine.volume_claims));
  LocalJob asked{.object = document.object, .notes = {}};
  if (!seats.empty()) {
    const auto rank_count = static_cast<std::int64_t>(seats.size());
    asked.object = with_one_rank_per_pod(document.object, rank_count);
    TRY(check_rank_count(asked.object, rank_count));
  }
  if (machine.device_count)
    asked = TRY(with_devices(document.object, *machine.device_count, !machine.kubelet.gpus->empty()));
  auto job = TRY(adapt_to_machine(asked.object, machine.volume_claims, *machine.kubelet.gpus, checkpoints.string()));
  job.notes.insert(job.notes.begin(), asked.notes.begin(), asked.notes.end());
  if (machine.restarts_max) job = with_restarts_max(std::move(job), *machine.restarts_max);
  if (!std::ranges::none_of(seats, &local::RankSeat::is_remote)) add_note_on_files(job);
  TRY(check_can_run(job.object, machine.kubelet));
  auto new_folders = TRY(missing_folders(document.object, job.object, machine.volume_claims));
  if (job.object.at("spec").contains("training") && has_rank_here(seats) && !is_found(machine.kubelet.worker_program)) {
    return fail(ErrorKind::not_found, program_not_found(machine));
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
  for (const auto& line : step_lines(prepared->job.object)) console.print(line);
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

}  // namespace

int run_file(const RunOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // The ranks go on when nobody reads our output any more.
  auto hosts = read_hosts(options.hosts);
  if (!hosts) {
    std::fprintf(stderr, "error: %s\n", hosts.error().message.c_str());
    return exit_usage;
  }
  std::optional<api::DeviceChoice> devices;
  if (options.devices) {
    const auto choice = api::parse_devices(*options.devices);
    if (!choice) {
      std::fprintf(stderr, "error: --devices: %s\n", choice.error().message.c_str());
      return exit_usage;
    }
    devices = *choice;
  }
  if (options.auto_select_gpus && devices && devices->kind == api::DeviceChoice::Kind::listed) {
    std::fprintf(stderr, "error: --auto-select-gpus chooses the GPUs itself: let --devices say how many, or -1\n");
    return exit_usage;
  }
  auto machine = describe_machine(options);
  if (!machine) return report(machine.error());
  if (options.auto_select_gpus) {
    if (const auto chosen = choose_free_devices(devices, *machine); !chosen)
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

}  // namespace trainyard::cli

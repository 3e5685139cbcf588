#include "cli/run.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "cli/console.hpp"
#include "cli/failure.hpp"
#include "cli/inherited_environment.hpp"
#include "cli/job_file.hpp"
#include "cli/job_run.hpp"
#include "cli/local_job.hpp"
#include "cli/nothing_left.hpp"
#include "cli/stop_signals.hpp"
#include "common/try.hpp"
#include "local/gpus.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

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
};

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
  return machine;
}

/// A job that can run here, and the folders that it needs.
struct Preparation {
  LocalJob job;
  std::vector<std::string> new_folders;
};

/// Changes nothing on this machine, so that a refused job leaves no trace.
Result<Preparation> prepare(const Document& document, const Machine& machine, const fs::path& checkpoints) {
  TRY(check_claims(document.object, machine.claims));
  auto job = TRY(adapt_to_machine(document.object, machine.claims, *machine.kubelet.gpus, checkpoints.string()));
  TRY(check_can_run(job.object, machine.kubelet));
  auto new_folders = TRY(missing_folders(document.object, job.object, machine.claims));
  if (job.object.at("spec").contains("training") && !is_found(machine.kubelet.worker_program)) {
    return fail(
        ErrorKind::not_found,
        fmt::format("the program {} was not found; name it with --worker, or build it and use "
                    "build/release/bin/trainyard: scripts/setup build && cmake --preset release && "
                    "cmake --build build/release --target trainyard trainyard-worker trainyard-rank trainyard-store",
                    machine.kubelet.worker_program));
  }
  return Preparation{.job = std::move(job), .new_folders = std::move(new_folders)};
}

int run_document(const Document& document, const Machine& machine, const fs::path& folder_path, Console& console,
                 const StopSignals& signals) {
  const auto prepared = prepare(document, machine, RunFolder::checkpoints_in(folder_path));
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
  const std::int64_t replicas = spec.value("replicas", std::int64_t{1});
  console.print(fmt::format("{}: {} process{} on this machine, in {}", document.name(), replicas,
                            replicas == 1 ? "" : "es", folder->path().string()));
  JobRunOptions options{.kubelet = machine.kubelet, .shown_logs = {}};
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
  const auto machine = describe_machine(options);
  if (!machine) return report(machine.error());
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
    if (const int exit_code = run_document(job, *machine, folder, console, signals); exit_code != 0) return exit_code;
  }
  return 0;
}

}  // namespace trainyard::cli

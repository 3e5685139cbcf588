#include "cli/run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "cli/console.hpp"
#include "cli/job_file.hpp"
#include "cli/job_run.hpp"
#include "cli/local_job.hpp"
#include "cli/stream_choice.hpp"
#include "local/gpus.hpp"
#include "operator/resource/validate.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

int report(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return exit_failure;
}

std::optional<std::string> environment_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>{value};
}

/// Ours, without what an outer launcher may have told this process about ranks: the pods' own are set over it, but a
/// foreign program would also believe in the ones that are not.
local::Variables inherited_environment() {
  local::Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name.starts_with("TORCHELASTIC_") || name.starts_with("PET_") || name.starts_with("TRAINYARD_")) {
      // Deadlines and the rank program are for people to set.
      if (name != "TRAINYARD_RANK_PROGRAM" && !name.ends_with("_SECONDS")) continue;
    }
    variables.emplace(name, text.substr(equals + 1));
  }
  for (const auto* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"})
    variables.erase(name);
  return variables;
}

/// The worker of this build or installation: beside our own program, else what PATH has.
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
    if (auto added = add_claim_folder(flag, machine.claims); !added) return tl::unexpected(added.error());
  }
  for (const auto& flag : options.secrets) {
    if (auto added = add_secret(flag, machine.kubelet.secrets); !added) return tl::unexpected(added.error());
  }
  for (const auto& [claim, folder] : machine.claims) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (!fs::is_directory(folder, error)) {
      return fail(ErrorKind::io,
                  fmt::format("--volume {}={}: this folder is not there and cannot be made", claim, folder));
    }
  }
  machine.kubelet.volumes = machine.claims;
  machine.kubelet.inherited = inherited_environment();
  machine.kubelet.worker_program = find_worker(options.worker);
  machine.kubelet.gpus = local::find_gpus(environment_of("CUDA_VISIBLE_DEVICES"));
  return machine;
}

int run_document(const Document& document, const Machine& machine, const fs::path& folder_path, Console& console) {
  const auto folder = RunFolder::open(folder_path, SystemClock{}.now());
  if (!folder) return report(folder.error());
  const auto job =
      adapt_to_machine(document.object, machine.claims, machine.kubelet.gpus, folder->checkpoints().string());
  if (!job)
    return report(
        {.kind = job.error().kind, .message = fmt::format("{}: {}", title_of(document), job.error().message)});
  if (auto can = check_can_run(job->object, machine.kubelet); !can) {
    return report(
        {.kind = can.error().kind, .message = fmt::format("{}: {}", title_of(document), can.error().message)});
  }
  const json& spec = job->object.at("spec");
  const bool has_training = spec.contains("training");
  if (has_training && !is_found(machine.kubelet.worker_program)) {
    return report(
        {.message = fmt::format("the program {} was not found; build it (cmake --build --target trainyard_worker "
                                "trainyard_rank) or name it by --worker",
                                machine.kubelet.worker_program)});
  }
  for (const auto& note : job->notes) console.print(note);
  const std::int64_t replicas = spec.value("replicas", std::int64_t{1});
  console.print(fmt::format("{}: {} process{} on this machine, in {}", document.name(), replicas,
                            replicas == 1 ? "" : "es", folder->path().string()));
  JobRunOptions options{.kubelet = machine.kubelet, .shown_logs = {}};
  options.kubelet.log_folder = folder->logs();
  // A training job tells how far it is by its status; another's only sign of life is what it prints.
  if (!has_training) options.shown_logs.push_back({.rank = 0});
  return run_job(job->object, *folder, std::move(options), console);
}

json command_job(const RunCommandOptions& options, const std::string& name, std::int64_t gpus_per_pod) {
  return {
      {"apiVersion", "trainyard.dev/v1alpha1"},
      {"kind", "TrainingJob"},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"replicas", options.processes},
        {"gpusPerPod", gpus_per_pod},
        {"restart",
         {{"application", {{"max", options.restarts_max}}}, {"backoff", {{"initial", "0s"}, {"max", "0s"}}}}},
        {"template",
         {{"spec",
           {{"containers", json::array({{{"name", "worker"}, {"image", "none"}, {"command", options.command}}})}}}}}}}};
}

/// A job's name out of a program's: "python3" of "/usr/bin/python3", with nothing but what a name may hold.
std::string job_name(const std::string& program) {
  std::string name;
  for (const char c : fs::path{program}.filename().string()) {
    const bool is_good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_good) name += c;
    if (c >= 'A' && c <= 'Z') name += static_cast<char>(c - 'A' + 'a');
    if (name.size() == 20) break;
  }
  return name.empty() || name.front() <= '9' ? "run" + name : name;
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
  const auto machine = describe_machine(options);
  if (!machine) return report(machine.error());
  const auto jobs = read_valid_jobs(options.file);
  if (!jobs) return report(jobs.error());
  Console console{stdout, terminal_width(stdout)};
  for (const auto& job : *jobs) {
    fs::path folder = options.folder.empty() ? default_run_folder(job.name()) : fs::path{options.folder};
    if (!options.folder.empty() && jobs->size() > 1) folder /= job.name();
    if (const int exit_code = run_document(job, *machine, folder, console); exit_code != 0) return exit_code;
  }
  return 0;
}

int run_command(const RunCommandOptions& options) {
  const auto redirects = StreamChoice::parse(options.redirects);
  const auto tee = StreamChoice::parse(options.tee);
  if (!redirects || !tee) {
    std::fprintf(stderr, "error: %s %s\n", redirects ? "--tee" : "--redirects",
                 (redirects ? tee.error() : redirects.error()).message.c_str());
    return exit_usage;
  }
  const std::string name = job_name(options.command.front());
  const auto gpus = local::find_gpus(environment_of("CUDA_VISIBLE_DEVICES"));
  // A GPU for each rank where they suffice; torchrun leaves the choice to the script, which here sees just its own.
  const bool has_gpus = static_cast<std::int64_t>(gpus.size()) >= options.processes;
  const json job = resource::with_defaults(command_job(options, name, has_gpus ? 1 : 0));
  if (const auto violations = resource::validate_training_job(job); !violations.empty()) {
    std::fprintf(stderr, "error: %s\n", resource::to_string(violations.front()).c_str());
    return exit_usage;
  }
  const auto folder = RunFolder::open(
      options.log_folder.empty() ? default_run_folder(name) : fs::path{options.log_folder}, SystemClock{}.now());
  if (!folder) return report(folder.error());
  JobRunOptions run{
      .kubelet = {.log_folder = folder->logs(), .has_separate_streams = true, .inherited = inherited_environment()},
      .shown_logs = shown_logs(options, *redirects, *tee),
      .is_quiet = true};
  if (has_gpus) run.kubelet.gpus = gpus;
  Console console{stdout, 0};
  return run_job(job, *folder, std::move(run), console);
}

}  // namespace trainyard::cli

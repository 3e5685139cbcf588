#include "cli/run_command.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>

#include "api/contract.hpp"
#include "api/validation/validate.hpp"
#include "cli/command_name.hpp"
#include "cli/console.hpp"
#include "cli/failure.hpp"
#include "cli/inherited_environment.hpp"
#include "cli/job_run.hpp"
#include "cli/stop_signals.hpp"
#include "cli/stream_choice.hpp"
#include "common/exit_codes.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

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
  // As torchrun does: ranks that each use all processors would slow each other down.
  if (options.processes > 1) run.kubelet.inherited.emplace("OMP_NUM_THREADS", "1");
  // Standard output is for the ranks only.
  Console output{stdout, 0};
  Console error{stderr, 0};
  return run_job(job, *folder, std::move(run), {.messages = error, .output = output, .error = error}, signals);
}

}  // namespace trainyard::cli

#include "cli/run_command.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "api/contract.hpp"
#include "api/validation/validate.hpp"
#include "cli/console.hpp"
#include "cli/errors.hpp"
#include "cli/job_run.hpp"
#include "cli/local_job.hpp"
#include "cli/stop_signals.hpp"
#include "common/exit_codes.hpp"
#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t name_length_max = 20;

bool is_python(std::string_view program) {
  return program.starts_with("python");
}

bool is_shell(std::string_view program) {
  return program == "sh" || program == "bash" || program == "zsh" || program == "dash";
}

/// The last part of a module's name: "lm" for "tools.lm".
std::string last_part(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

/// The name of the script or module that an interpreter runs. Empty if `program` is no interpreter, or runs code given
/// with -c.
std::optional<std::string> script_of(const std::vector<std::string>& command, std::string_view program) {
  if (!is_python(program) && !is_shell(program)) return std::nullopt;
  for (std::size_t index = 1; index < command.size(); ++index) {
    const std::string& word = command[index];
    const bool has_next = index + 1 < command.size();
    if (word == "-c") return std::nullopt;
    if (!word.starts_with('-')) return fs::path{word}.stem().string();
    if (!is_python(program)) continue;
    if (word == "-m") return has_next ? std::optional{last_part(command[index + 1])} : std::nullopt;
    if (word == "-W" || word == "-X") ++index;  // These options take a value.
  }
  return std::nullopt;
}

/// `text` as a job's name: lower case, without the characters that a name may not hold.
std::string as_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool is_good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_good) name += c;
    if (c >= 'A' && c <= 'Z') name += static_cast<char>(c - 'A' + 'a');
    if ((c == '_' || c == '-' || c == '.') && !name.empty() && !name.ends_with('-')) name += '-';
    if (name.size() == name_length_max) break;
  }
  while (name.ends_with('-')) name.pop_back();
  return name.empty() || name.front() <= '9' ? "run" + name : name;
}

std::optional<int> parse_number_up_to(std::string_view text, int max) {
  const auto number = parse_number<int>(text);
  return number && *number >= 0 && *number <= max ? number : std::nullopt;
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
  const char* const own = std::getenv(key.c_str());
  return {key, own == nullptr ? std::string{torchruns} : std::string{own}};
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

std::string command_name(const std::vector<std::string>& command) {
  const std::string program = fs::path{command.front()}.filename().string();
  return as_name(script_of(command, program).value_or(program));
}

Result<StreamChoice> StreamChoice::parse(std::string_view text) {
  const auto refused =
      fail(ErrorKind::invalid, fmt::format("'{}': must be 0 (none), 1 (standard output), 2 (standard error) or 3 "
                                           "(both), or such a number for each rank like 0:1,2:3",
                                           text));
  StreamChoice choice;
  if (const auto all = parse_number_up_to(text, 3)) {
    choice.all_ = *all;
    return choice;
  }
  for (bool has_more = true; has_more;) {
    const std::string_view part = text.substr(0, text.find(','));
    const auto colon = part.find(':');
    if (colon == std::string_view::npos) return refused;
    const auto rank = parse_number_up_to(part.substr(0, colon), 1'000'000);
    const auto streams = parse_number_up_to(part.substr(colon + 1), 3);
    if (!rank || !streams) return refused;
    choice.by_rank_[*rank] = *streams;
    has_more = part.size() < text.size();
    if (has_more) text.remove_prefix(part.size() + 1);
  }
  return choice;
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

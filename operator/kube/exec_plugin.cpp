#include "operator/kube/exec_plugin.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "common/child_program.hpp"
#include "common/try.hpp"
#include "operator/kube/exec_credential.hpp"

namespace trainyard::kube {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code unused;
  return fs::is_regular_file(path, unused) && ::access(path.c_str(), X_OK) == 0;
}

// Longer words are left out of messages: some programs repeat their input, and a token is longer than any word.
constexpr std::size_t word_bytes_max = 100;

Error not_found(const ExecEntry& entry) {
  const bool is_path = entry.command.find('/') != std::string::npos;
  return {.kind = ErrorKind::unauthorized,
          .message = fmt::format("there is no such program{}: {}", is_path ? " that may be run" : " in PATH",
                                 entry.install_hint.empty() ? "install it, or mend exec.command" : entry.install_hint),
          .retry_after = {}};
}

/// Replaces kinds such as not_found and conflict, which callers would take for the API server's answer about an object.
Error could_not_run(Error error) {
  if (!is_transient(error.kind)) error.kind = ErrorKind::unauthorized;
  error.message += "; run it by hand to see why";
  return error;
}

Error failed(const ProgramEnd& end) {
  const std::string words = on_one_line(end.words, word_bytes_max);
  return {.kind = ErrorKind::unauthorized,
          .message = fmt::format("it ended with exit code {}{}{}; log in again, or run it by hand", end.exit_code,
                                 words.empty() ? "" : ": ", words),
          .retry_after = {}};
}

}  // namespace

Result<bool> decide_interactive(InteractiveMode mode, bool has_terminal) {
  if (mode != InteractiveMode::always) return mode == InteractiveMode::if_available && has_terminal;
  if (has_terminal) return true;
  return fail(ErrorKind::unauthorized,
              "its interactiveMode is Always and standard input is not a terminal: run this in a terminal");
}

std::optional<fs::path> find_program(const std::string& command, std::string_view search_path) {
  if (command.find('/') != std::string::npos)
    return is_program(command) ? std::optional<fs::path>{command} : std::nullopt;
  std::istringstream folders{std::string{search_path}};
  for (std::string folder; std::getline(folders, folder, ':');) {
    // A program in the current folder must not get to see credentials.
    if (!folder.starts_with('/')) continue;
    if (fs::path program = fs::path{folder} / command; is_program(program)) return program;
  }
  return std::nullopt;
}

ExecPlugin::ExecPlugin(ExecEntry entry, ExecCluster cluster, ExecPluginOptions options,
                       std::shared_ptr<const Clock> clock)
    : entry_{std::move(entry)}, cluster_{std::move(cluster)}, options_{options}, clock_{std::move(clock)} {}

Result<ExecCredential> ExecPlugin::credential() {
  std::unique_lock lock{mutex_};
  if (is_running_) {
    // The run has a deadline of its own. Its result, even a failure, answers every caller that began to wait during it.
    ended_.wait(lock, [this, runs = run_count_] { return run_count_ != runs; });
    return *last_;
  }
  if (last_ && *last_ && !is_refused_ && clock_->now() < renewal_time_) return *last_;
  is_running_ = true;
  lock.unlock();
  auto given = run();
  if (!given) given = fail(fmt::format("the exec plugin \"{}\"", entry_.command), given.error());
  lock.lock();
  if (given) renewal_time_ = renewal_time(*given, clock_->now());
  last_ = given;
  is_refused_ = false;
  is_running_ = false;
  ++run_count_;
  lock.unlock();
  ended_.notify_all();
  return given;
}

void ExecPlugin::refuse(std::string_view token) {
  const std::scoped_lock lock{mutex_};
  if (last_ && *last_ && (*last_)->token == token) is_refused_ = true;
}

Result<ExecCredential> ExecPlugin::run() const {
  const auto is_interactive = TRY(decide_interactive(entry_.interactive_mode, ::isatty(STDIN_FILENO) == 1));
  const char* search_path = std::getenv("PATH");
  const auto program = find_program(entry_.command, search_path == nullptr ? "" : search_path);
  if (!program) return tl::unexpected(not_found(entry_));

  std::vector<std::string> arguments{program->string()};
  arguments.insert(arguments.end(), entry_.arguments.begin(), entry_.arguments.end());
  ProgramOptions options{.environment = entry_.environment, .is_sharing_terminal = is_interactive};
  options.environment["KUBERNETES_EXEC_INFO"] = make_exec_info(entry_, cluster_, is_interactive);
  const auto end = run_program(arguments, is_interactive ? options_.interactive_deadline : options_.deadline, options);
  if (!end) return tl::unexpected(could_not_run(end.error()));
  if (end->exit_code != 0) return tl::unexpected(failed(*end));
  auto credential = parse_exec_credential(end->output, entry_.api_version);
  if (!credential) {
    return fail(ErrorKind::unauthorized,
                fmt::format("{}; check exec.command and exec.args", credential.error().message));
  }
  return credential;
}

}  // namespace trainyard::kube

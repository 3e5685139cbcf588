// trainyard-worker: PID 1 of a worker pod. Starts the rank processes, and ends when they have ended, with their exit
// code and reason. With the argument clean-up it removes a deleted job's checkpoints instead.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "common/child_program.hpp"
#include "common/logging.hpp"
#include "worker/launcher/launcher.hpp"
#include "worker/launcher/options.hpp"

namespace {

using namespace trainyard;

int refuse(const Error& error, const rank::Environment& environment, const std::string& reason = "InvalidEnvironment") {
  const rank::RankEnd end{
      .exit_code = contract::exit_do_not_restart, .reason = reason, .message = error.message, .culprit = {}};
  launcher::report_end(end, {}, {}, environment);
  return end.exit_code;
}

/// Replaces this process by `program`. Returns only when `program` cannot be started.
Error become(const std::string& program, const std::vector<std::string>& given) {
  std::vector<std::string> words{program};
  words.insert(words.end(), given.begin(), given.end());
  execv(program.c_str(), exec_pointers(words).data());
  return {.kind = ErrorKind::io, .message = "starting " + program + ": " + std::strerror(errno), .retry_after = {}};
}

}  // namespace

int main(int argc, char** argv) {
  const rank::Environment environment = rank::process_environment();
  const bool is_json = environment(rank::env_log_format) == "json";
  logging::set_up(is_json ? logging::Format::json : logging::Format::text, logging::Level::info);
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  if (argc == 2 && argv[1] == contract::clean_up_command) {
    return refuse(become(folder + "/trainyard-clean-up", {}), environment, "CannotStart");
  }
  const auto options = launcher::parse_options(std::vector<std::string>(argv + 1, argv + argc), environment, folder);
  if (!options) return refuse(options.error(), environment);
  if (options->asks_for_help) {
    std::fputs(launcher::usage().c_str(), stdout);
    return 0;
  }
  // torchrun supervises its processes itself, so that the rank program replaces the launcher.
  if (options->group.uses_agent_store) {
    return refuse(become(options->rank_program, options->rank_arguments), environment, "CannotStart");
  }
  launcher::launch(*options, environment);
}

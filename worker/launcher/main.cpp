// trainyard-worker: PID 1 of a worker pod. Starts the rank processes and ends when they do, with their exit code and
// reason.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "common/contract.hpp"
#include "common/logging.hpp"
#include "worker/launcher/launcher.hpp"
#include "worker/launcher/options.hpp"

namespace {

using namespace trainyard;

int refuse(const Error& error, const launcher::Environment& environment) {
  const launcher::RankEnd end{.exit_code = contract::exit_do_not_restart,
                              .reason = "InvalidEnvironment",
                              .message = error.message,
                              .culprit = {}};
  say_end(end, {}, {}, environment);
  return end.exit_code;
}

/// torchrun supervises its processes itself: there the rank takes our place.
int become_rank(const launcher::Options& options) {
  std::vector<char*> arguments{const_cast<char*>(options.rank_program.c_str())};
  for (const std::string& argument : options.rank_arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(options.rank_program.c_str(), arguments.data());
  logging::error("ended",
                 {{"error", "starting the rank program " + options.rank_program + ": " + std::strerror(errno)}});
  return contract::exit_do_not_restart;
}

}  // namespace

int main(int argc, char** argv) {
  const launcher::Environment environment = launcher::process_environment();
  const bool is_json = environment("TRAINYARD_LOG_FORMAT") == "json";
  logging::set_up(is_json ? logging::Format::json : logging::Format::text, logging::Level::info);
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto options = launcher::parse_options(std::vector<std::string>(argv + 1, argv + argc), environment, folder);
  if (!options) return refuse(options.error(), environment);
  if (options->asks_for_help) {
    std::fputs(launcher::usage().c_str(), stdout);
    return 0;
  }
  if (options->group.uses_agent_store) return become_rank(*options);
  launcher::launch(*options, environment);
}

#include "worker/train/program.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/train/rank_program.hpp"

namespace trainyard::train {
namespace {

bool is_rank(const rank::Environment& environment) {
  const auto group = rank::parse_group_environment(environment);
  // The rank reports a wrong environment.
  return !group || group->has_launcher || group->uses_agent_store;
}

int become_launcher(int argc, char** argv) {
  constexpr const char* launcher_name = "trainyard-worker";
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> words{launcher_name, "--rank-program", self.string(), "--"};
  words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv((self.parent_path() / launcher_name).c_str(), arguments.data());
  execvp(launcher_name, arguments.data());
  logging::error("trainyard-worker cannot be started: it is neither beside this program nor in PATH",
                 {{"error", std::strerror(errno)}});
  return contract::exit_do_not_restart;
}

}  // namespace

int run_program(const ModelRegistry& models, int argc, char** argv) {
  if (is_rank(rank::process_environment())) run_rank(models);
  return become_launcher(argc, argv);
}

}  // namespace trainyard::train

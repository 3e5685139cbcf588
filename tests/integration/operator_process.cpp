#include "tests/integration/operator_process.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "common/try.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::integration {

Result<std::unique_ptr<OperatorProcess>> OperatorProcess::start(const std::filesystem::path& kubeconfig,
                                                                const std::string& election_namespace,
                                                                const std::vector<std::string>& flags) {
  std::vector<std::string> command{
      "setpriv",         "--pdeathsig",       "KILL",     "--",          paths::program("trainyard-operator"),
      "--kubeconfig",    kubeconfig.string(), "--listen", "127.0.0.1:0", "--leader-election-namespace",
      election_namespace};
  command.insert(command.end(), flags.begin(), flags.end());
  auto child = TRY(cluster::start_child(command));
  return std::unique_ptr<OperatorProcess>{new OperatorProcess{child}};
}

OperatorProcess::~OperatorProcess() {
  if (!is_ended_) {
    signal(SIGKILL);
    wait();
  }
  for (const int fd : {child_.stdin_fd, child_.stdout_fd, child_.stderr_fd}) close(fd);
}

void OperatorProcess::signal(int number) {
  kill(child_.pid, number);
}

int OperatorProcess::wait() {
  is_ended_ = true;
  return cluster::wait_for_exit(child_.pid);
}

std::string OperatorProcess::log() const {
  struct stat file {};
  if (fstat(child_.stderr_fd, &file) != 0) return {};
  std::string text(static_cast<std::size_t>(file.st_size), '\0');
  const ssize_t count = pread(child_.stderr_fd, text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return text;
}

std::int64_t OperatorProcess::memory_bytes(std::string_view field) const {
  std::ifstream status{"/proc/" + std::to_string(child_.pid) + "/status"};
  for (std::string word; status >> word;) {
    if (word != field) continue;
    std::int64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace trainyard::integration

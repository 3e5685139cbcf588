#include "tests/storage/server_process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/fakes/free_port.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::storage {
namespace {

[[noreturn]] void become(const std::vector<std::string>& arguments, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  ::_exit(127);
}

}  // namespace

std::unique_ptr<ServerProcess> ServerProcess::start(
    const std::function<std::vector<std::string>(std::uint16_t port)>& command) {
  // Another program may take the free port first.
  for (int tries = 0; tries < 5; ++tries) {
    const std::uint16_t port = fakes::free_port();
    std::unique_ptr<ServerProcess> server{new ServerProcess{port, command(port)}};
    if (server->comes_up()) return server;
  }
  return nullptr;
}

ServerProcess::ServerProcess(std::uint16_t port, const std::vector<std::string>& arguments) : port_{port} {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments, parent);
}

ServerProcess::~ServerProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool ServerProcess::comes_up() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (std::chrono::steady_clock::now() < deadline) {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
      pid_ = -1;
      return false;
    }
    if (accepts()) return true;
    std::this_thread::sleep_for(
        std::chrono::milliseconds{10});  // Polls, since the server gives no notice when it listens.
  }
  return false;
}

bool ServerProcess::accepts() const {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port_);
  const bool is_up = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return is_up;
}

// Only scripts/lib.sh defines the folder.
std::string install_folder(const std::string& variable) {
  const std::string command =
      fmt::format("bash -c 'cd \"{}\" && . scripts/lib.sh && printf %s \"${}\"'", paths::source(""), variable);
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string said(4096, '\0');
  said.resize(pipe == nullptr ? 0 : ::fread(said.data(), 1, said.size(), pipe));
  if (pipe != nullptr) ::pclose(pipe);
  return said;
}

}  // namespace trainyard::storage

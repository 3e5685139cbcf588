#include "tests/storage/versitygw.hpp"

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
#include <filesystem>
#include <thread>

#include "tests/fakes/free_port.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::storage {
namespace {

// Where scripts/setup keeps the tools is written in scripts/lib.sh only.
const std::string& program() {
  static const std::string path = [] {
    const std::string command = fmt::format(
        "bash -c 'cd \"{}\" && . scripts/lib.sh && printf %s \"$tools_home/versitygw\"'", paths::source(""));
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string said(4096, '\0');
    said.resize(pipe == nullptr ? 0 : ::fread(said.data(), 1, said.size(), pipe));
    if (pipe != nullptr) ::pclose(pipe);
    return said;
  }();
  return path;
}

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

bool Versitygw::is_installed() {
  return std::filesystem::exists(program());
}

std::unique_ptr<Versitygw> Versitygw::start(const std::vector<std::string>& options) {
  // Another program may take the free port before it does.
  for (int tries = 0; tries < 5; ++tries) {
    std::unique_ptr<Versitygw> server{new Versitygw{fakes::free_port(), options}};
    if (server->comes_up()) return server;
  }
  return nullptr;
}

Versitygw::Versitygw(std::uint16_t port, const std::vector<std::string>& options) : port_(port) {
  const std::string buckets = folder_.path() + "/buckets";
  const std::string metadata = folder_.path() + "/metadata";
  std::filesystem::create_directories(buckets);
  std::filesystem::create_directories(metadata);
  folder_.write("users.json",
                fmt::format(R"({{"accessAccounts": {{"{0}": {{"access": "{0}", "secret": "{1}", "role": "admin"}}}}}})",
                            other_key_id, other_secret));
  std::vector<std::string> arguments = {program(),         "--port",       fmt::format("127.0.0.1:{}", port),
                                        "--access",        access_key_id,  "--secret",
                                        secret_access_key, "--keep-alive", "--quiet",
                                        "--iam-dir",       folder_.path()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  // The metadata lie in files, for temporary folders without extended attributes.
  for (const std::string& last : {std::string{"posix"}, std::string{"--sidecar"}, metadata, buckets})
    arguments.push_back(last);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments, parent);
}

Versitygw::~Versitygw() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string Versitygw::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

void Versitygw::make_bucket(const std::string& name) {
  std::filesystem::create_directories(folder_.path() + "/buckets/" + name);
}

void Versitygw::remove_bucket(const std::string& name) {
  const std::filesystem::path bucket = folder_.path() + "/buckets/" + name;
  std::error_code error;
  // The server may put a file in while the folder goes.
  for (int tries = 0; tries < 100 && std::filesystem::exists(bucket); ++tries)
    std::filesystem::remove_all(bucket, error);
}

bool Versitygw::comes_up() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (std::chrono::steady_clock::now() < deadline) {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
      pid_ = -1;
      return false;
    }
    if (accepts()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});  // Between two looks: nothing tells when it listens.
  }
  return false;
}

bool Versitygw::accepts() const {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port_);
  const bool is_up = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return is_up;
}

}  // namespace trainyard::storage

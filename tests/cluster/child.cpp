#include "tests/cluster/child.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trainyard::cluster {

namespace {

/// Closes the ends that are still ours.
struct Pipe {
  std::array<int, 2> ends{-1, -1};
  ~Pipe() {
    for (const int fd : ends) {
      if (fd >= 0) close(fd);
    }
  }
};

}  // namespace

Result<Child> start_child(const std::vector<std::string>& command) {
  // Close-on-exec: an end that another child kept open would hide our end from this child.
  Pipe in;
  Pipe out;
  const int errors = memfd_create("stderr", MFD_CLOEXEC);
  if (errors < 0 || pipe2(in.ends.data(), O_CLOEXEC) != 0 || pipe2(out.ends.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    if (errors >= 0) close(errors);
    return fail(ErrorKind::io, fmt::format("pipes for {}: {}", command.front(), std::strerror(error)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  Child child;
  const int error = posix_spawnp(&child.pid, words.front(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    close(errors);
    return fail(ErrorKind::io, fmt::format("starting {}: {}", command.front(), std::strerror(error)));
  }
  child.stdin_fd = std::exchange(in.ends[1], -1);
  child.stdout_fd = std::exchange(out.ends[0], -1);
  child.stderr_fd = errors;
  return child;
}

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  while ((count = read(fd, buffer.data(), buffer.size())) > 0 || (count < 0 && errno == EINTR)) {
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(fd);
  return text;
}

std::string read_whole(int fd) {
  lseek(fd, 0, SEEK_SET);
  return read_to_end(fd);
}

std::string read_line(int fd) {
  std::string line;
  char character = 0;
  ssize_t count = 0;
  while ((count = read(fd, &character, 1)) == 1 || (count < 0 && errno == EINTR)) {
    if (count < 0) continue;
    if (character == '\n') break;
    line.push_back(character);
  }
  return line;
}

int wait_for_exit(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace trainyard::cluster

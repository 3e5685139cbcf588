#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::cluster {

/// A started program and our ends of its standard streams.
struct Child {
  pid_t pid = -1;
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;  ///< A file in memory, to be read with read_whole() once the program has ended.
};

/// Starts `command` (the first word is looked up in PATH). It inherits no other descriptor of ours. ErrorKind::io when
/// it cannot be started.
[[nodiscard]] Result<Child> start_child(const std::vector<std::string>& command);

/// Reads to the end of the stream, and closes it.
[[nodiscard]] std::string read_to_end(int fd);
/// Reads the whole file, and closes it.
[[nodiscard]] std::string read_whole(int fd);
/// Reads to the end of a line or of the stream. Returns the line without its end; the stream stays open.
[[nodiscard]] std::string read_line(int fd);
/// Waits for the program's end. Returns its exit code, or 128 + the signal's number.
int wait_for_exit(pid_t pid);

}  // namespace trainyard::cluster

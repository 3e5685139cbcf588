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

/// Starts `command` (the first word is looked up in PATH). No other descriptor of ours reaches it. ErrorKind::io when
/// it cannot be started.
[[nodiscard]] Result<Child> start_child(const std::vector<std::string>& command);

/// Everything up to the end of the stream; closes it.
[[nodiscard]] std::string read_to_end(int fd);
/// The file from its beginning; closes it.
[[nodiscard]] std::string read_whole(int fd);
/// Up to the end of a line or of the stream; the stream stays open. Without the line's end.
[[nodiscard]] std::string read_line(int fd);
/// The exit code, or 128 + the signal's number.
int wait_for_exit(pid_t pid);

}  // namespace trainyard::cluster

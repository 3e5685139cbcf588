#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::launcher {

struct Program {
  std::string path;
  std::vector<std::string> arguments;    ///< Without the program's name.
  std::vector<std::string> environment;  ///< "NAME=value", all of it.
  std::optional<int> inherited_file;     ///< Stays open in the program, under the same number.
};

/// Starts the program in a process group of its own, without input, to be killed with the calling thread. Returns once
/// it runs. ErrorKind::not_found where it cannot be executed, io where the system has no room for it.
[[nodiscard]] Result<pid_t> start(const Program& program);

/// `base` with `name` set to `value`.
void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value);
/// This process's environment as "NAME=value" entries.
[[nodiscard]] std::vector<std::string> current_environment();

}  // namespace trainyard::launcher

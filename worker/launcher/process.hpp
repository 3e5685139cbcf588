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
  std::vector<std::string> environment;  ///< The whole environment, as "NAME=value".
  std::optional<int> inherited_file;     ///< This descriptor stays open in the program, with the same number.
};

/// Starts `program` in a process group of its own, without input. The kernel kills it when the calling thread ends.
/// Returns once the program runs. ErrorKind::not_found when it cannot be executed, io when the system cannot start
/// another process.
[[nodiscard]] Result<pid_t> start(const Program& program);

/// Sets `name` to `value` in `environment`.
void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value);
/// This process's environment as "NAME=value" entries.
[[nodiscard]] std::vector<std::string> current_environment();

}  // namespace trainyard::launcher

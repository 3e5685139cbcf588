#pragma once

#include <string>
#include <vector>

namespace trainyard::cli {

/// A job's name for a command: its script's where Python or a shell runs one ("train-gpt" of "python3 -u
/// train_gpt.py"), its module's ("lm" of "python3 -m tools.lm"), else its program's ("python3" of "/usr/bin/python3 -c
/// ..."). At most 20 characters, or 23 where "run" is put before a digit; all of them may stand in a name.
[[nodiscard]] std::string command_name(const std::vector<std::string>& command);

}  // namespace trainyard::cli

#pragma once

#include <string>
#include <vector>

namespace trainyard::cli {

/// A job's name for a command: the name of its script ("train-gpt" for "python3 -u train_gpt.py"), else of its Python
/// module
/// ("lm" for "python3 -m tools.lm"), else of its program ("python3" for "/usr/bin/python3 -c ..."). A name that would
/// begin with a digit gets "run" in front. At most 23 characters, all valid in a job's name.
[[nodiscard]] std::string command_name(const std::vector<std::string>& command);

}  // namespace trainyard::cli

#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace trainyard::cli {

/// `trainyard validate FILE...`: every violation of every TrainingJob with file, document, field and a sentence, on
/// `out`. Gives the exit code: 0 when there is none, 1 otherwise, also when there
/// is no TrainingJob. What cannot be read goes to `error`.
[[nodiscard]] int validate_files(const std::vector<std::string>& files, std::ostream& out, std::ostream& error);

}  // namespace trainyard::cli

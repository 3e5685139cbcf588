#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace trainyard::cli {

/// `trainyard validate FILE...`: prints on `out` every violation of every TrainingJob, with file, document, field and a
/// sentence, and on `error` why a file cannot be read. Returns the exit code: 0 if all TrainingJobs are valid, 1 if one
/// is not, a file cannot be read, or there is no TrainingJob.
[[nodiscard]] int validate_files(const std::vector<std::string>& files, std::ostream& out, std::ostream& error);

}  // namespace trainyard::cli

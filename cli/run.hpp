#pragma once

#include <string>
#include <vector>

namespace trainyard::cli {

struct RunOptions {
  std::string file;
  std::string folder;                ///< Empty: trainyard-runs/<job>.
  std::vector<std::string> volumes;  ///< CLAIM=FOLDER
  std::vector<std::string> secrets;  ///< NAME=FILE
  std::string worker;                ///< Path of trainyard-worker; empty: in this program's folder, else in PATH.
};
/// `trainyard run FILE`: runs the TrainingJobs of a file on this machine, one after the other. Ends with the first job
/// that does not succeed or is stopped. Returns the exit code (job_run.hpp).
[[nodiscard]] int run_file(const RunOptions& options);

}  // namespace trainyard::cli

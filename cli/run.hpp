#pragma once

#include <string>
#include <vector>

namespace trainyard::cli {

struct RunOptions {
  std::string file;
  std::string folder;                ///< Empty: trainyard-runs/<job>.
  std::vector<std::string> volumes;  ///< CLAIM=FOLDER
  std::vector<std::string> secrets;  ///< NAME=FILE
  std::string worker;                ///< Path of trainyard-worker; empty: beside this program, else in PATH.
};
/// `trainyard run FILE`: the TrainingJobs of a file, one after the other, on this machine. Gives the exit code
/// (job_run.hpp); the first job that does not succeed, or that is stopped, is the last.
[[nodiscard]] int run_file(const RunOptions& options);

}  // namespace trainyard::cli

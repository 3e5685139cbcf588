#pragma once

#include <cstdint>
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
/// (job_run.hpp); the first job that does not succeed is the last.
[[nodiscard]] int run_file(const RunOptions& options);

struct RunCommandOptions {
  std::int64_t processes = 1;
  std::int64_t restarts_max = 0;
  std::string redirects = "0";  ///< See StreamChoice.
  std::string tee = "0";
  std::string log_folder;  ///< Empty: trainyard-runs/<program>.
  std::vector<std::string> command;
};
/// `trainyard run --nproc N -- CMD`: N ranks of a command, as torchrun starts them: output goes to the console, with
/// --redirects to files alone, with --tee to both, each line after its rank.
[[nodiscard]] int run_command(const RunCommandOptions& options);

}  // namespace trainyard::cli

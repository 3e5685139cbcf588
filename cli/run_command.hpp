#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::cli {

struct RunCommandOptions {
  std::int64_t processes = 1;
  std::int64_t restarts_max = 0;
  std::string redirects = "0";  ///< See StreamChoice.
  std::string tee = "0";
  std::string log_folder;  ///< Empty: trainyard-runs/<script or program>.
  std::vector<std::string> command;
};
/// `trainyard run --nproc N -- CMD`: N ranks of a command, as torchrun starts them on one node: each stream goes to our
/// own of that kind, with --redirects to files alone, with --tee to both, each line after its rank. Our own words are
/// on standard error. Gives the exit code (job_run.hpp).
[[nodiscard]] int run_command(const RunCommandOptions& options);

}  // namespace trainyard::cli

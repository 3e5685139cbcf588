#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/hosts.hpp"

namespace trainyard::cli {

struct RunOptions {
  std::string file;
  std::string folder;                ///< Empty: trainyard-runs/<job>.
  std::vector<std::string> volumes;  ///< CLAIM=FOLDER
  std::vector<std::string> secrets;  ///< NAME=FILE
  std::string worker;                ///< Path of trainyard-worker; empty: in this program's folder, else in PATH.
  HostOptions hosts;
  std::optional<std::int64_t> rank_count;  ///< With hosts; empty: the job's own.
  std::optional<std::string> devices;      ///< See local::parse_devices. Absent: those that the job asks for.
  bool auto_select_gpus = false;           ///< Only GPUs that no other process uses.
};
/// `trainyard run FILE`: runs the TrainingJobs of a file on this machine, one after the other. Ends with the first job
/// that does not succeed or is stopped. Returns the exit code (job_run.hpp).
[[nodiscard]] int run_file(const RunOptions& options);

struct RunCommandOptions {
  std::int64_t processes = 1;
  std::int64_t restarts_max = 0;
  std::string redirects = "0";  ///< See StreamChoice.
  std::string tee = "0";
  std::string log_folder;  ///< Empty: trainyard-runs/<script or program>.
  std::vector<std::string> command;
  HostOptions hosts;
};
/// `trainyard run --nproc N -- CMD`: runs N ranks of a command, as torchrun does on one node. Ranks' streams go to
/// files and to our streams; with --redirects only to files; with --tee each line is printed after its rank. Our own
/// messages go to standard error. Returns the exit code (job_run.hpp).
[[nodiscard]] int run_command(const RunCommandOptions& options);

}  // namespace trainyard::cli

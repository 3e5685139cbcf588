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
  std::optional<std::int64_t> rank_count;    ///< With hosts; empty: the job's own.
  std::optional<std::string> devices;        ///< See api::parse_devices. Absent: those that the job asks for.
  std::optional<std::int64_t> restarts_max;  ///< Limit for each cause. Absent: the limits of the job's spec.restart.
  bool auto_select_gpus = false;             ///< Only GPUs that no other process uses.
};
/// `trainyard run FILE`: runs the TrainingJobs of a file on this machine, one after the other. Ends with the first job
/// that does not succeed or is stopped. Returns the exit code (job_run.hpp).
[[nodiscard]] int run_file(const RunOptions& options);

}  // namespace trainyard::cli

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "cli/local_run.hpp"

/// The output of `trainyard ps` and `trainyard status`. Pure.
namespace trainyard::cli {

/// A job on this machine or in a cluster.
struct JobReport {
  std::string name;
  std::string phase;
  std::string name_space;  ///< Empty: the job is on this machine.
  std::string folder;      ///< The run's folder; empty: the job is in a cluster.
  std::string logs;        ///< The run's logs; empty: the job is in a cluster.
  std::optional<Time> start;
  api::TrainingJobStatus status;
  bool operator==(const JobReport&) const = default;
};
[[nodiscard]] JobReport report_of(const LocalRun& run);
[[nodiscard]] JobReport report_of(const api::TrainingJob& job);

/// A table with a line for each job.
[[nodiscard]] std::string jobs_table(std::span<const JobReport> jobs, Time now);
/// One job in detail, with a line for each attempt that ended.
[[nodiscard]] std::string job_text(const JobReport& job, Time now);
/// The status as the API has it, with the job's name, phase and place.
[[nodiscard]] nlohmann::json job_json(const JobReport& job);

}  // namespace trainyard::cli

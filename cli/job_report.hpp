#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "cli/local_run.hpp"

/// What `trainyard ps` and `trainyard status` print. Pure.
namespace trainyard::cli {

/// A job of this machine or of a cluster.
struct JobReport {
  std::string name;
  std::string phase;
  std::string name_space;  ///< Of a cluster; empty: the job is of this machine.
  std::string folder;      ///< Of this machine.
  std::string logs;        ///< Of this machine.
  std::optional<Time> start;
  api::TrainingJobStatus status;
  bool operator==(const JobReport&) const = default;
};
[[nodiscard]] JobReport report_of(const LocalRun& run);
[[nodiscard]] JobReport report_of(const api::TrainingJob& job);

/// A line for each job.
[[nodiscard]] std::string jobs_table(std::span<const JobReport> jobs, Time now);
/// All that a person wants to know of one job, and each attempt that ended.
[[nodiscard]] std::string job_text(const JobReport& job, Time now);
/// The status in the API's form, with the job's name, phase and place.
[[nodiscard]] nlohmann::json job_json(const JobReport& job);

}  // namespace trainyard::cli

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <span>
#include <string>

#include "cli/cluster_access.hpp"
#include "cli/local_run.hpp"
#include "cli/text/output.hpp"

/// `trainyard ps` and `trainyard status`: their reports, whose texts are pure, and the commands.
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

struct StatusOptions {
  std::string job;
  std::string folder;  ///< The folder of a run on this machine; empty: trainyard-runs/<job>, if that exists.
  ClusterChoice cluster;
  OutputFormat format = OutputFormat::text;
};
/// `trainyard status JOB`: prints one job's progress and how its attempts ended. A run of this machine comes first,
/// then the cluster that kubectl would ask. Returns the exit code.
[[nodiscard]] int print_status(const StatusOptions& options);

/// The report on `job`. Errors are the API server's; ErrorKind::not_found: there is no such job.
[[nodiscard]] Result<JobReport> report_in_cluster(kube::Api& api, const std::string& name_space,
                                                  const std::string& job);

struct PsOptions {
  std::string folder;  ///< A folder with folders of runs, or the folder of one run; empty: trainyard-runs.
  OutputFormat format = OutputFormat::text;
};
/// `trainyard ps`: prints the newest run of each job on this machine, the one that began last at the end. Returns the
/// exit code.
[[nodiscard]] int list_runs(const PsOptions& options);

}  // namespace trainyard::cli

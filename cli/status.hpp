#pragma once

#include <string>

#include "cli/cluster_access.hpp"
#include "cli/job_report.hpp"
#include "cli/text/output_format.hpp"

namespace trainyard::cli {

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

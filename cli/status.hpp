#pragma once

#include <string>

#include "cli/cluster_access.hpp"
#include "cli/job_report.hpp"
#include "cli/text/output_format.hpp"

namespace trainyard::cli {

struct StatusOptions {
  std::string job;
  std::string folder;  ///< Of a run on this machine; empty: trainyard-runs/<job>, where that exists.
  ClusterChoice cluster;
  OutputFormat format = OutputFormat::text;
};
/// `trainyard status JOB`: how far one job is, and how its attempts ended. A run of this machine comes first, then the
/// cluster that kubectl would ask. Gives the exit code.
[[nodiscard]] int print_status(const StatusOptions& options);

/// Errors are the API server's; not_found says that there is no such job.
[[nodiscard]] Result<JobReport> report_in_cluster(kube::Api& api, const std::string& name_space,
                                                  const std::string& job);

}  // namespace trainyard::cli

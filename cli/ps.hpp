#pragma once

#include <string>

#include "cli/text/output_format.hpp"

namespace trainyard::cli {

struct PsOptions {
  std::string folder;  ///< Holds the folders of runs, or is a run's own; empty: trainyard-runs.
  OutputFormat format = OutputFormat::text;
};
/// `trainyard ps`: the newest run of each job on this machine, the one that began last at the end. Gives the exit code.
[[nodiscard]] int list_runs(const PsOptions& options);

}  // namespace trainyard::cli

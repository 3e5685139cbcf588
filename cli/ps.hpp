#pragma once

#include <string>

#include "cli/text/output_format.hpp"

namespace trainyard::cli {

struct PsOptions {
  std::string folder;  ///< A folder with folders of runs, or the folder of one run; empty: trainyard-runs.
  OutputFormat format = OutputFormat::text;
};
/// `trainyard ps`: prints the newest run of each job on this machine, the one that began last at the end. Returns the
/// exit code.
[[nodiscard]] int list_runs(const PsOptions& options);

}  // namespace trainyard::cli

#include "cli/ps.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/failure.hpp"
#include "cli/job_report.hpp"
#include "cli/run_folder.hpp"

namespace trainyard::cli {

int list_runs(const PsOptions& options) {
  namespace fs = std::filesystem;
  const fs::path parent = options.folder.empty() ? runs_folder() : fs::path{options.folder};
  std::vector<JobReport> jobs;
  int exit_code = 0;
  for (const fs::path& folder : run_folders_in(parent)) {
    const auto run = read_local_run(folder);
    if (run) {
      jobs.push_back(report_of(*run));
    } else {
      exit_code = report(run.error());
    }
  }
  std::ranges::stable_sort(jobs, {}, &JobReport::start);
  if (options.format != OutputFormat::text) {
    nlohmann::json document = nlohmann::json::array();
    for (const JobReport& job : jobs) document.push_back(job_json(job));
    std::fputs(document_text(document, options.format).c_str(), stdout);
  } else if (!jobs.empty()) {
    std::fputs(jobs_table(jobs, SystemClock{}.now()).c_str(), stdout);
  } else if (exit_code == 0) {
    std::fprintf(stderr, "note: there are no runs in %s\n", parent.c_str());
  }
  return exit_code;
}

}  // namespace trainyard::cli

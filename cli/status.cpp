#include "cli/status.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "cli/failure.hpp"
#include "cli/job_report.hpp"
#include "cli/run_folder.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;

Result<JobReport> ask_cluster(const StatusOptions& options, const fs::path& folder) {
  const auto cluster = TRY(open_cluster(
      options.cluster, fmt::format("there is no run of {} on this machine ({})", options.job, folder.string())));
  return report_in_cluster(*cluster.api, cluster.name_space, options.job);
}

Result<JobReport> find_report(const StatusOptions& options) {
  const fs::path folder = options.folder.empty() ? default_run_folder(options.job) : fs::path{options.folder};
  if (options.cluster.is_named()) return ask_cluster(options, folder);
  const auto run = read_local_run(folder);
  if (run) return report_of(*run);
  const bool may_be_in_cluster = run.error().kind == ErrorKind::not_found && options.folder.empty();
  return may_be_in_cluster ? ask_cluster(options, folder) : tl::unexpected(run.error());
}

}  // namespace

Result<JobReport> report_in_cluster(kube::Api& api, const std::string& name_space, const std::string& job) {
  const auto object = api.get(kube::training_jobs, name_space, job);
  if (!object && object.error().kind == ErrorKind::not_found)
    return fail(ErrorKind::not_found, fmt::format("there is no TrainingJob {} in the namespace {}", job, name_space));
  TRY(object);
  return api::parse_training_job(*object).map([](const api::TrainingJob& found) { return report_of(found); });
}

int print_status(const StatusOptions& options) {
  const auto found = find_report(options);
  if (!found) return report(found.error());
  const bool is_document = options.format != OutputFormat::text;
  std::fputs(
      (is_document ? document_text(job_json(*found), options.format) : job_text(*found, SystemClock{}.now())).c_str(),
      stdout);
  return 0;
}

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

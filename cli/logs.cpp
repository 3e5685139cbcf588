#include "cli/logs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include "cli/log_tail.hpp"
#include "cli/run_folder.hpp"
#include "common/contract.hpp"
#include "local/log_files.hpp"
#include "operator/kube/http_api.hpp"
#include "operator/kube/kubeconfig.hpp"
#include "operator/plan/containers.hpp"
#include "operator/plan/names.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

int report(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return 1;
}

void write_out(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

/// Numbers N of the entries `<prefix><N><ending>` of a folder, sorted.
std::vector<std::int64_t> numbers_in(const fs::path& folder, std::string_view prefix, std::string_view ending) {
  std::vector<std::int64_t> numbers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder, error}) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix) || !name.ends_with(ending)) continue;
    std::int64_t number = 0;
    const char* end = name.data() + name.size() - ending.size();
    const auto [stop, failed] = std::from_chars(name.data() + prefix.size(), end, number);
    if (failed == std::errc{} && stop == end) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

int print_local(const LogsOptions& options, const fs::path& folder) {
  const fs::path logs = folder / "logs" / "latest";
  const auto attempts = numbers_in(logs, "attempt-", "");
  if (attempts.empty())
    return report({.message = fmt::format("no rank of {} has started yet in {}", options.job, folder.string())});
  const std::int64_t attempt = options.attempt.value_or(attempts.back());
  if (std::find(attempts.begin(), attempts.end(), attempt) == attempts.end()) {
    return report({.message = fmt::format("there is no attempt {} in {}; there is {}", attempt, logs.string(),
                                          fmt::join(attempts, ", "))});
  }
  std::vector<LogTail> tails;
  // Runs that keep the streams apart have two files for a rank.
  for (const auto stream : {local::LogStream::both, local::LogStream::output, local::LogStream::error}) {
    const fs::path file = local::rank_log(logs, attempt, options.rank, stream);
    if (fs::exists(file)) tails.emplace_back(file);
  }
  if (tails.empty()) {
    auto ranks = numbers_in(logs / fmt::format("attempt-{}", attempt), "rank-", ".log");
    return report({.message = fmt::format("there is no log of rank {} in attempt {}; there is rank {}", options.rank,
                                          attempt, fmt::join(ranks, ", "))});
  }
  while (true) {
    const bool is_live = is_run_in_progress(folder);  // Before reading: what comes last is read after it.
    for (auto& tail : tails) {
      for (std::string bytes = tail.read(); !bytes.empty(); bytes = tail.read()) write_out(bytes);
    }
    if (!options.is_following || !is_live) return 0;
    std::this_thread::sleep_for(100ms);
  }
}

int print_from_cluster(const LogsOptions& options) {
  const fs::path file = options.kubeconfig.empty() ? kube::default_kubeconfig() : fs::path{options.kubeconfig};
  auto config = kube::load_kubeconfig(file, options.context);
  if (!config) {
    return report(
        {.message = fmt::format("there is no run of {} on this machine ({}), and no cluster to ask: {}", options.job,
                                default_run_folder(options.job).string(), config.error().message)});
  }
  auto api = kube::HttpApi::make(*std::move(config));
  if (!api) return report(api.error());
  const std::string name_space = options.name_space.empty() ? (*api)->default_namespace() : options.name_space;
  const auto object = (*api)->get(kube::training_jobs, name_space, options.job);
  if (!object) return report(object.error());
  const auto job = resource::parse_training_job(*object);
  if (!job) return report(job.error());
  const std::int64_t attempt = options.attempt.value_or(job->status.attempt);
  if (attempt == 0) {
    return report({.message = fmt::format("{} has no pods yet: {} {}", options.job,
                                          resource::to_string(job->status.phase), job->status.message)});
  }
  const std::string pod = plan::pod_name(*job, attempt, options.rank);
  const kube::json* worker = plan::find_worker(job->spec.pod_template);
  const std::string container = worker == nullptr ? std::string{contract::worker_container}
                                                  : worker->value("name", std::string{contract::worker_container});
  const auto streamed = (*api)->stream_log(
      name_space, pod, {.container = container, .is_following = options.is_following}, write_out, {});
  if (streamed) return 0;
  if (streamed.error().kind != ErrorKind::not_found) return report(streamed.error());
  return report({.message = fmt::format(
                     "{}. The pod of rank {} in attempt {} is gone or was never there; the job is at attempt {} of {} "
                     "ranks",
                     streamed.error().message, options.rank, attempt, job->status.attempt, job->spec.replicas)});
}

}  // namespace

int print_logs(const LogsOptions& options) {
  ::signal(SIGPIPE, SIG_DFL);  // `trainyard logs job | head` ends like any filter.
  const bool is_cluster_asked_for =
      !options.name_space.empty() || !options.kubeconfig.empty() || !options.context.empty();
  const fs::path folder = options.folder.empty() ? default_run_folder(options.job) : fs::path{options.folder};
  std::error_code error;
  if (!is_cluster_asked_for && (!options.folder.empty() || fs::is_directory(folder / "logs", error)))
    return print_local(options, folder);
  return print_from_cluster(options);
}

}  // namespace trainyard::cli

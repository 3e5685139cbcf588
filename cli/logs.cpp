#include "cli/logs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "api/contract.hpp"
#include "cli/errors.hpp"
#include "cli/log_tail.hpp"
#include "cli/run_folder.hpp"
#include "local/log_files.hpp"
#include "operator/kube/http_api.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using api::Phase;
using namespace std::chrono_literals;

constexpr auto job_poll_interval = 1s;

/// True when a job in this phase starts no rank by itself any more.
bool is_at_rest(Phase phase) {
  return phase == Phase::succeeded || phase == Phase::failed || phase == Phase::suspended || phase == Phase::deleting;
}

void write_out(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

/// The pod and container that write the log of a rank.
struct RankContainer {
  std::string pod;
  std::string container;
};

RankContainer container_of(const api::TrainingJob& job, std::int64_t attempt, std::int64_t rank) {
  const kube::json* worker = manifest::find_worker(job.spec.pod_template);
  std::string container{contract::worker_container};
  if (worker != nullptr) container = worker->value("name", container);
  return {.pod = manifest::pod_name(job, attempt, rank), .container = std::move(container)};
}

Error explain_absence(const Error& error, const LogsOptions& options, const api::TrainingJob& job,
                      std::int64_t attempt) {
  if (error.kind != ErrorKind::not_found) return error;
  return {
      .kind = error.kind,
      .message = fmt::format("{}. The pod of rank {} in attempt {} does not exist (any more); the job is in attempt {} "
                             "and has {} pods",
                             error.message, options.rank, attempt, job.status.attempt, job.spec.replicas)};
}

int print_attempts(kube::HttpApi& api, const LogsOptions& options, const std::string& name_space) {
  std::int64_t printed = 0;
  std::int64_t without_log = 0;  // The attempt in which the rank had written nothing when it was last asked.
  while (true) {
    const auto object = api.get(kube::training_jobs, name_space, options.job);
    if (!object) return report(object.error());
    const auto job = api::parse_training_job(*object);
    if (!job) return report(job.error());
    const std::int64_t attempt = options.attempt.value_or(job->status.attempt);
    switch (next_log_action(job->status, options.attempt, printed, options.is_following)) {
      case LogAction::end:
        if (printed > 0) return 0;
        return report({.message = fmt::format("{} has no pods yet: {} {}", options.job,
                                              api::to_string(job->status.phase), job->status.message)});
      case LogAction::print: {
        const auto [pod, container] = container_of(*job, attempt, options.rank);
        bool is_empty = true;
        const auto write = [&](std::string_view bytes) {
          is_empty = is_empty && bytes.empty();
          write_out(bytes);
        };
        const auto streamed =
            api.stream_log(name_space, pod, {.container = container, .is_following = options.is_following}, write, {});
        // The kubelet also ends the stream of a container that is created and does not run yet.
        if (streamed && is_empty && options.is_following && attempt >= job->status.attempt &&
            !is_at_rest(job->status.phase)) {
          without_log = attempt;
          break;
        }
        if (streamed || (without_log == attempt && is_at_rest(job->status.phase))) {
          printed = attempt;
          continue;
        }
        // A pod that does not exist yet, or whose container has not started, may have a log later.
        const bool may_come =
            (streamed.error().kind == ErrorKind::not_found || streamed.error().kind == ErrorKind::invalid) &&
            attempt >= job->status.attempt && options.rank < job->spec.replicas;
        if (!options.is_following || is_at_rest(job->status.phase) || !may_come)
          return report(explain_absence(streamed.error(), options, *job, attempt));
        break;
      }
      case LogAction::wait:
        break;
    }
    std::this_thread::sleep_for(job_poll_interval);
  }
}

int print_from_cluster(const LogsOptions& options) {
  const auto cluster = open_cluster(
      options.cluster,
      fmt::format("there is no run of {} on this machine ({})", options.job, default_run_folder(options.job).string()));
  if (!cluster) return report(cluster.error());
  return print_attempts(*cluster->api, options, cluster->name_space);
}

constexpr auto log_poll_interval = 100ms;

/// The numbers N in names `<prefix><N>` and `<prefix><N>.<ending>` of a folder's entries.
std::set<std::int64_t> numbers_in(const fs::path& folder, std::string_view prefix) {
  std::set<std::int64_t> numbers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder, error}) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    std::int64_t number = 0;
    const char* end = name.data() + name.size();
    const auto [stop, failed] = std::from_chars(name.data() + prefix.size(), end, number);
    if (failed == std::errc{} && (stop == end || *stop == '.')) numbers.insert(number);
  }
  return numbers;
}

/// The logs of one rank in one attempt: one file, or two in runs with separate streams.
class RankLog {
 public:
  RankLog() = default;
  RankLog(const fs::path& logs, std::int64_t attempt, std::int64_t rank) {
    for (const auto stream : {local::LogStream::both, local::LogStream::output, local::LogStream::error})
      tails_.emplace_back(local::rank_log(logs, attempt, rank, stream));
  }

  void print_news(const std::function<void(std::string_view)>& print) {
    for (auto& tail : tails_) {
      for (std::string bytes = tail.read(); !bytes.empty(); bytes = tail.read()) print(bytes);
    }
  }

 private:
  std::vector<LogTail> tails_;
};

bool has_log(const fs::path& logs, std::int64_t attempt, std::int64_t rank) {
  return numbers_in(logs / fmt::format("attempt-{}", attempt), "rank-").contains(rank);
}

Result<void> no_such_log(const LogsOptions& options, const fs::path& folder, const fs::path& logs) {
  std::error_code error;
  if (!fs::is_symlink(folder / "logs" / "latest", error))
    return fail(ErrorKind::not_found, fmt::format("no run has used the folder {}", folder.string()));
  const auto attempts = numbers_in(logs, "attempt-");
  if (attempts.empty())
    return fail(ErrorKind::not_found, fmt::format("no rank of {} has started yet in {}", options.job, folder.string()));
  const std::int64_t attempt = options.attempt.value_or(*attempts.rbegin());
  if (!attempts.contains(attempt)) {
    return fail(ErrorKind::not_found, fmt::format("there is no attempt {} in {}; attempts: {}", attempt, logs.string(),
                                                  fmt::join(attempts, ", ")));
  }
  const auto ranks = numbers_in(logs / fmt::format("attempt-{}", attempt), "rank-");
  return fail(ErrorKind::not_found, fmt::format("there is no log of rank {} in attempt {}; ranks with a log: {}",
                                                options.rank, attempt, fmt::join(ranks, ", ")));
}

}  // namespace

LogAction next_log_action(const api::TrainingJobStatus& status, std::optional<std::int64_t> wanted,
                          std::int64_t printed, bool is_following) {
  if (wanted.value_or(status.attempt) > printed) return LogAction::print;
  const bool has_all = printed > 0 && wanted.has_value();
  return !is_following || has_all || is_at_rest(status.phase) ? LogAction::end : LogAction::wait;
}

int print_logs(const LogsOptions& options) {
  ::signal(SIGPIPE, SIG_DFL);  // `trainyard logs job | head` ends like any filter.
  const fs::path folder = options.folder.empty() ? default_run_folder(options.job) : fs::path{options.folder};
  std::error_code error;
  if (!options.cluster.is_named() && (!options.folder.empty() || fs::is_directory(folder / "logs", error))) {
    const auto printed = print_local_logs(options, folder, write_out);
    return printed ? 0 : report(printed.error());
  }
  return print_from_cluster(options);
}

Result<void> print_local_logs(const LogsOptions& options, const fs::path& folder,
                              const std::function<void(std::string_view)>& print) {
  // Prints the logs of this run only: a later run has logs of its own.
  const fs::path newest = folder / "logs" / "latest";
  std::error_code error;
  const fs::path run = fs::read_symlink(newest, error);
  const fs::path logs = folder / "logs" / run;
  RankLog log;
  std::int64_t shown = 0;
  while (true) {
    // Checked before the log is read, so that a run's last output is not missed.
    const bool is_live = is_run_in_progress(folder) && fs::read_symlink(newest, error) == run;
    const auto attempts = numbers_in(logs, "attempt-");
    const std::int64_t last = attempts.empty() ? 0 : *attempts.rbegin();
    const std::int64_t attempt = options.attempt.value_or(last);
    log.print_news(print);
    if (attempt != shown && has_log(logs, attempt, options.rank)) {
      log = RankLog{logs, attempt, options.rank};
      shown = attempt;
      log.print_news(print);
    }
    const bool is_attempt_over = options.attempt && last > *options.attempt;
    if (!options.is_following || !is_live || is_attempt_over)
      return shown == 0 || (options.attempt && shown != attempt) ? no_such_log(options, folder, logs) : Result<void>{};
    std::this_thread::sleep_for(log_poll_interval);
  }
}

}  // namespace trainyard::cli

#include "cli/local_logs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <chrono>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/log_tail.hpp"
#include "cli/run_folder.hpp"
#include "local/log_files.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

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

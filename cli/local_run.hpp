#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/training_job.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

/// The newest run of a job on this machine, read from the run's folder.
struct LocalRun {
  std::string name;  ///< The folder's name.
  std::filesystem::path folder;
  std::filesystem::path logs;  ///< The folder with this run's logs.
  std::optional<Time> start;
  bool is_in_progress = false;  ///< The run's process is alive.
  /// The status that the run wrote last; empty: it has written none.
  std::optional<api::TrainingJobStatus> status;
  bool operator==(const LocalRun&) const = default;
};

/// Writes `status` atomically into the folder `logs` of a run, for other processes. Errors are those of
/// storage::FileStore.
[[nodiscard]] Result<void> write_run_status(const std::filesystem::path& logs, const api::TrainingJobStatus& status);

/// ErrorKind::not_found: no run has used `folder`; corrupt: its status is damaged. Other errors are those of
/// storage::FileStore.
[[nodiscard]] Result<LocalRun> read_local_run(const std::filesystem::path& folder);

/// The folders in `parent` that runs have used, sorted by name; only `parent` if a run has used `parent` itself.
[[nodiscard]] std::vector<std::filesystem::path> run_folders_in(const std::filesystem::path& parent);

/// The phase of a run whose process died before its job ended.
inline constexpr std::string_view interrupted = "Interrupted";
/// The job's phase, such as "Running" or "Succeeded". For a run whose process is gone: `interrupted` if the job had not
/// ended, "Ended" if the run left no status.
[[nodiscard]] std::string phase_of(const LocalRun& run);

}  // namespace trainyard::cli

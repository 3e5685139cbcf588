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

/// The newest run of a job on this machine, as any process can read it from the run's folder.
struct LocalRun {
  std::string name;  ///< The folder's.
  std::filesystem::path folder;
  std::filesystem::path logs;  ///< Of this run alone.
  std::optional<Time> start;
  bool is_in_progress = false;  ///< Its process is alive.
  /// As the run wrote it last; empty: it has written none yet, or ended before that.
  std::optional<api::TrainingJobStatus> status;
  bool operator==(const LocalRun&) const = default;
};

/// Leaves `status` for other processes in the folder `logs` of a run: a file that is there whole or not at all. Errors
/// are those of storage::FileStore.
[[nodiscard]] Result<void> write_run_status(const std::filesystem::path& logs, const api::TrainingJobStatus& status);

/// ErrorKind::not_found: no run has worked in `folder`; corrupt: its status is damaged; else those of
/// storage::FileStore.
[[nodiscard]] Result<LocalRun> read_local_run(const std::filesystem::path& folder);

/// The folders below `parent` that runs have worked in, sorted by name; or `parent` itself if it is one of them.
[[nodiscard]] std::vector<std::filesystem::path> run_folders_in(const std::filesystem::path& parent);

/// The phase of a run whose process is gone while its status says no end.
inline constexpr std::string_view interrupted = "Interrupted";
/// "Running", "Succeeded" and so on, as the job's phase. A run whose process is gone is `interrupted` if its status
/// says no end, and "Ended" if it left no status.
[[nodiscard]] std::string phase_of(const LocalRun& run);

}  // namespace trainyard::cli

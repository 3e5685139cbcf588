#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "common/clock.hpp"
#include "common/file_descriptor.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

/// Where a job's runs on this machine keep what they make: `checkpoints/`, shared by all runs so that the next goes on
/// where the last one stopped, and `logs/<time>/` of each run with its logs and its status (local_run.hpp), the newest
/// also as `logs/latest`. One run at a time: the folder is locked while this object lives.
class RunFolder {
 public:
  /// Makes what is missing. ErrorKind::conflict when another run holds the folder, io when it cannot be made.
  [[nodiscard]] static Result<RunFolder> open(const std::filesystem::path& folder, Time now);
  /// Opens the first of `folder`, `folder`-2, `folder`-3 and so on up to `folder`-100 that no other run holds. Errors
  /// as of open().
  [[nodiscard]] static Result<RunFolder> open_free(const std::filesystem::path& folder, Time now);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::filesystem::path& logs() const { return logs_; }
  /// Absolute; of a run that may never have been.
  [[nodiscard]] static std::filesystem::path checkpoints_in(const std::filesystem::path& folder);

 private:
  RunFolder(std::filesystem::path path, std::filesystem::path logs, FileDescriptor lock)
      : path_(std::move(path)), logs_(std::move(logs)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  std::filesystem::path logs_;
  FileDescriptor lock_;
};

/// The folder that holds the folders of runs, below the current one, where nothing else is asked for.
[[nodiscard]] std::filesystem::path runs_folder();
/// The folder of `job` below the current one, where nothing else is asked for.
[[nodiscard]] std::filesystem::path default_run_folder(const std::string& job);

/// Whether a run holds the folder at this moment.
[[nodiscard]] bool is_run_in_progress(const std::filesystem::path& folder);

}  // namespace trainyard::cli

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "common/clock.hpp"
#include "common/file_descriptor.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

/// The folder of a job's runs on this machine. `checkpoints/` is shared by all runs, so that the next run resumes where
/// the last one stopped. `logs/<time>/` has the logs and the status (local_run.hpp) of one run; `logs/latest` links to
/// the newest. The folder is locked while this object lives, so that one run at a time uses it.
class RunFolder {
 public:
  /// Creates what is missing. ErrorKind::conflict if another run uses the folder, io if it cannot be created.
  [[nodiscard]] static Result<RunFolder> open(const std::filesystem::path& folder, Time now);
  /// Opens the first of `folder`, `folder`-2, `folder`-3 and so on up to `folder`-100 that no other run uses. Errors
  /// are those of open().
  [[nodiscard]] static Result<RunFolder> open_free(const std::filesystem::path& folder, Time now);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::filesystem::path& logs() const { return logs_; }
  /// The absolute path of the checkpoints in a run's folder, which need not exist.
  [[nodiscard]] static std::filesystem::path checkpoints_in(const std::filesystem::path& folder);

 private:
  RunFolder(std::filesystem::path path, std::filesystem::path logs, FileDescriptor lock)
      : path_{std::move(path)}, logs_{std::move(logs)}, lock_{std::move(lock)} {}

  std::filesystem::path path_;
  std::filesystem::path logs_;
  FileDescriptor lock_;
};

/// The default folder for the folders of runs: below the current folder.
[[nodiscard]] std::filesystem::path runs_folder();
/// The default folder for runs of `job`.
[[nodiscard]] std::filesystem::path default_run_folder(const std::string& job);

/// True while a run uses `folder`.
[[nodiscard]] bool is_run_in_progress(const std::filesystem::path& folder);

/// "20261121T100000.123": sorts by time, and needs no quoting in a shell.
[[nodiscard]] std::string compact_time(Time time);
/// Reads what compact_time() writes. ErrorKind::invalid for anything else.
[[nodiscard]] Result<Time> parse_compact_time(std::string_view text);

}  // namespace trainyard::cli

#include "cli/local_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/run_folder.hpp"
#include "common/try.hpp"
#include "storage/file_store.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using api::Phase;
using api::TrainingJobStatus;

constexpr const char* status_key = "status.json";

bool is_at_end(Phase phase) {
  return phase == Phase::succeeded || phase == Phase::failed || phase == Phase::suspended;
}

Result<std::optional<TrainingJobStatus>> read_status(const fs::path& logs) {
  storage::FileStore files{logs.string()};
  const auto text = storage::get_text(files, status_key);
  if (!text && text.error().kind == ErrorKind::not_found) return std::nullopt;
  TRY(text);
  const auto object = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  auto status = api::parse_status(object.is_object() ? object : nlohmann::json::object());
  if (object.is_object() && status) return *std::move(status);
  return fail(ErrorKind::corrupt, fmt::format("the status file {} is damaged", files.path_of(status_key)));
}

}  // namespace

Result<void> write_run_status(const fs::path& logs, const TrainingJobStatus& status) {
  storage::FileStore files{logs.string()};
  return storage::put_text(files, status_key, api::to_json(status).dump());
}

Result<LocalRun> read_local_run(const fs::path& folder) {
  const fs::path named = fs::absolute(folder).lexically_normal();
  const fs::path path = named.has_filename() ? named : named.parent_path();  // "runs/job/" ends with an empty part.
  std::error_code error;
  const fs::path name = fs::read_symlink(path / "logs" / "latest", error);
  if (error) return fail(ErrorKind::not_found, fmt::format("no run has used the folder {}", path.string()));
  LocalRun run{.name = path.filename().string(), .folder = path, .logs = path / "logs" / name};
  if (const auto start = parse_compact_time(name.string())) run.start = *start;
  // Checked before the status is read: a run writes its last status before its process ends.
  run.is_in_progress = is_run_in_progress(path);
  run.status = TRY(read_status(run.logs));
  return run;
}

std::vector<fs::path> run_folders_in(const fs::path& parent) {
  std::error_code error;
  const auto is_run_folder = [&](const fs::path& folder) { return fs::is_symlink(folder / "logs" / "latest", error); };
  if (is_run_folder(parent)) return {parent};
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator{parent, error}) {
    if (is_run_folder(entry.path())) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

std::string phase_of(const LocalRun& run) {
  if (!run.status) return run.is_in_progress ? "Pending" : "Ended";
  const Phase phase = run.status->phase;
  if (!run.is_in_progress && !is_at_end(phase)) return std::string{interrupted};
  return phase == Phase::none ? "Pending" : std::string{to_string(phase)};
}

}  // namespace trainyard::cli

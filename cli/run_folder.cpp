#include "cli/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/time_text.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = ".lock";
constexpr int folders_max = 100;  // For runs with the same name at the same time.

Result<void> make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fail(ErrorKind::io, fmt::format("cannot create the folder {}: {}", folder.string(), error.message()));
  return {};
}

}  // namespace

Result<RunFolder> RunFolder::open(const fs::path& folder, Time now) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  TRY(make_folder(path));
  FileDescriptor lock{::open((path / lock_name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
  if (!lock) {
    return fail(ErrorKind::io, fmt::format("cannot write to the folder {}: {}", path.string(), std::strerror(errno)));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorKind::conflict,
                fmt::format("another `trainyard run` uses the folder {}; wait until it ends, stop it, or choose "
                            "another folder with --dir (for a command --log-dir)",
                            path.string()));
  }
  const std::string name = compact_time(now);
  TRY(make_folder(path / "logs" / name));
  // Renamed over the old link, so that a link exists at every moment.
  std::error_code error;
  const fs::path fresh = path / "logs" / ".latest";
  fs::remove(fresh, error);
  fs::create_directory_symlink(name, fresh, error);
  if (!error) fs::rename(fresh, path / "logs" / "latest", error);
  if (error) return fail(ErrorKind::io, fmt::format("cannot link {}/logs/latest: {}", path.string(), error.message()));
  return RunFolder{path, path / "logs" / name, std::move(lock)};
}

Result<RunFolder> RunFolder::open_free(const fs::path& folder, Time now) {
  auto opened = open(folder, now);
  for (int number = 2; !opened && opened.error().kind == ErrorKind::conflict && number <= folders_max; ++number) {
    opened = open(fmt::format("{}-{}", folder.string(), number), now);
  }
  return opened;
}

fs::path RunFolder::checkpoints_in(const fs::path& folder) {
  return fs::absolute(folder).lexically_normal() / "checkpoints";
}

fs::path runs_folder() {
  return "trainyard-runs";
}

fs::path default_run_folder(const std::string& job) {
  return runs_folder() / job;
}

bool is_run_in_progress(const fs::path& folder) {
  const FileDescriptor lock{::open((folder / lock_name).c_str(), O_RDONLY | O_CLOEXEC)};
  return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

std::string compact_time(Time time) {
  std::string text = format_rfc3339_micro(time).substr(0, 23);
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  return text;
}

Result<Time> parse_compact_time(std::string_view text) {
  constexpr std::size_t length = 19;
  if (text.size() != length) return fail(ErrorKind::invalid, fmt::format("'{}' is no time", text));
  return parse_rfc3339(fmt::format("{}-{}-{}:{}:{}Z", text.substr(0, 4), text.substr(4, 2), text.substr(6, 5),
                                   text.substr(11, 2), text.substr(13)));
}

}  // namespace trainyard::cli

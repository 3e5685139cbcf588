#include "checkpoint/run/local_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/format/sealed_json.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view owner_key = "owner.json";
constexpr std::chrono::hours kept_time{24};

nlohmann::json owner_of(const Identity& identity) {
  return {{"job", identity.job}, {"jobUid", identity.job_uid}};
}

// True for a name that leads to no other folder and is not hidden.
bool is_folder_name(std::string_view uid) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !uid.empty() && uid.size() <= 128 && std::ranges::all_of(uid, is_good);
}

Time changed_at(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return Time::max();  // Somebody is changing it now.
  return Time{std::chrono::duration_cast<Time::duration>(std::chrono::seconds{status.st_mtim.tv_sec} +
                                                         std::chrono::nanoseconds{status.st_mtim.tv_nsec})};
}

Time newest_change(const fs::path& folder) {
  Time newest = changed_at(folder);
  std::error_code error;
  for (fs::recursive_directory_iterator entry{folder, error}; !error && entry != fs::recursive_directory_iterator{};
       entry.increment(error)) {
    newest = std::max(newest, changed_at(entry->path()));
  }
  return error ? Time::max() : newest;
}

// True when owner.json in `folder` names this job with another UID.
bool is_other_life(const fs::path& folder, const Identity& identity) {
  storage::FileStore store = open_local_store(folder);
  const auto owner = storage::get_text(store, owner_key).and_then(unseal);
  const std::string uid = folder.filename().native();
  return owner && uid != identity.job_uid && *owner == nlohmann::json{{"job", identity.job}, {"jobUid", uid}};
}

Result<void> remove_folder(const fs::path& folder) {
  storage::FileStore store = open_local_store(folder);
  const auto objects = TRY(store.list(checkpoints_prefix));
  for (const storage::ObjectInfo& object : objects) {
    if (!parse_written_key(object.key)) continue;
    TRY(store.remove(object.key));
  }
  auto removed = store.remove_unfinished([](std::string_view key) { return parse_folder_key(key).has_value(); });
  // owner.json goes last: it must name the owner as long as anything is in the folder.
  if (removed) removed = store.remove(owner_key);
  ::rmdir(folder.c_str());
  return removed;
}

}  // namespace

storage::FileStore open_local_store(const std::string& folder) {
  return storage::FileStore{folder, {.modes = {}, .may_be_link = false}};
}

Result<std::string> local_folder(const std::string& path, const Identity& identity) {
  if (is_folder_name(identity.job_uid)) return fmt::format("{}/{}", path, identity.job_uid);
  return fail(ErrorKind::invalid,
              fmt::format("checkpoint.local needs the job's UID (TRAINYARD_JOB_UID), which names a folder, got \"{}\": "
                          "leave checkpoint.local out for a run without a UID",
                          identity.job_uid));
}

Result<void> mark_local_folder(const std::string& path, const Identity& identity) {
  return local_folder(path, identity).and_then([&](const std::string& folder) {
    storage::FileStore store = open_local_store(folder);
    return storage::put_text(store, owner_key, seal(owner_of(identity)));
  });
}

void remove_old_local_folders(const std::string& path, const Identity& identity, Time now) {
  std::error_code error;
  for (fs::directory_iterator entry{path, error}; !error && entry != fs::directory_iterator{}; entry.increment(error)) {
    std::error_code failed;
    if (!is_folder_name(entry->path().filename().native()) || entry->is_symlink(failed) ||
        !entry->is_directory(failed) || !is_other_life(entry->path(), identity) ||
        now - newest_change(entry->path()) < kept_time) {
      continue;
    }
    const auto removed = remove_folder(entry->path());
    if (removed) {
      logging::info("local checkpoints of an earlier job of this name were removed",
                    {{"folder", entry->path().native()}});
    } else {
      logging::warn("local checkpoints of an earlier job of this name were not removed",
                    {{"folder", entry->path().native()}, {"error", removed.error().message}});
    }
  }
}

void remove_local_folder(const std::string& path, const Identity& identity) {
  const auto folder = local_folder(path, identity);
  if (!folder) return;
  if (auto removed = remove_folder(*folder); !removed) {
    logging::warn("the folder of local checkpoints was not removed",
                  {{"folder", *folder}, {"error", removed.error().message}});
  }
}

}  // namespace trainyard::checkpoint

#include "storage/file_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <utility>

#include "storage/key.hpp"
#include "storage/posix.hpp"

namespace trainyard::storage {
namespace {

namespace fs = std::filesystem;

// A folder may be removed, having become empty, between making it and making a file in it.
constexpr int put_tries_max = 100;

constexpr std::string_view temporary_prefix = ".tmp-";

std::string temporary_name() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}", temporary_prefix, random());
}

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

Result<void> write_once(const std::string& path, Pieces pieces, const PutOptions& options) {
  const std::string folder = folder_of(path);
  const auto changed = posix::make_directories(folder);
  if (!changed) return tl::unexpected(changed.error());
  const std::string temporary = fmt::format("{}/{}", folder, temporary_name());
  const auto file = posix::create_file(temporary);
  if (!file) return tl::unexpected(file.error());
  auto written = posix::write_durably(*file, pieces, temporary);
  // Only now that the temporary file keeps them from being removed again: a sync is slow.
  for (const std::string& parent : *changed) {
    if (written) written = posix::sync_directory(parent);
  }
  if (written) written = options.if_absent ? posix::publish(temporary, path) : posix::replace(temporary, path);
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  return posix::sync_directory(folder);
}

bool is_failure(const std::error_code& error) {
  return error && error != std::errc::no_such_file_or_directory;
}

struct Found {
  bool has_objects = true;  // Else nothing is asked of the file system for each of them, and they are left out.
  std::vector<ObjectInfo> objects;
  std::vector<std::string> temporaries;  // Keys.
};

// Whether what is at `key` or below it may begin with `prefix`.
bool may_lead_to(std::string_view key, std::string_view prefix) {
  return key.starts_with(prefix) || (prefix.starts_with(key) && prefix[key.size()] == '/');
}

// Adds what is there now of keys that begin with `prefix`: files and folders that vanish meanwhile are left out, and
// nothing else is. Whatever else lies in the folder, however much it is, is not looked into.
Result<void> add_files_below(const std::string& root, const fs::path& folder, std::string_view prefix, Found& found) {
  std::error_code error;
  fs::directory_iterator entry{folder, error};
  for (; !error && entry != fs::directory_iterator{}; entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    std::string key = entry->path().native().substr(root.size() + 1);
    if (!may_lead_to(key, prefix)) continue;
    if (name.starts_with(temporary_prefix)) found.temporaries.push_back(key);
    if (name.starts_with('.')) continue;
    std::error_code failed;
    if (entry->is_directory(failed)) {
      if (auto added = add_files_below(root, entry->path(), prefix, found); !added) return added;
    } else if (found.has_objects && entry->is_regular_file(failed)) {
      const std::uint64_t bytes = entry->file_size(failed);
      if (!failed) found.objects.push_back({.key = std::move(key), .bytes = bytes});
    }
    if (is_failure(failed))
      return tl::unexpected(posix::error_of(failed.value(), fmt::format("looking at {}", entry->path().native())));
  }
  if (is_failure(error))
    return tl::unexpected(posix::error_of(error.value(), fmt::format("listing {}", folder.native())));
  return {};
}

}  // namespace

FileStore::FileStore(std::string folder) : folder_(std::move(folder)) {}

std::string FileStore::path_of(std::string_view key) const {
  return fmt::format("{}/{}", folder_, key);
}

Result<std::string> FileStore::temporary_path(std::string_view key) const {
  const std::string folder = folder_of(path_of(key));
  return posix::make_directories(folder).map(
      [&](const auto&) { return fmt::format("{}/{}", folder, temporary_name()); });
}

std::string FileStore::uri_of(std::string_view key) const {
  return fmt::format("file://{}", path_of(key));
}

Result<void> FileStore::probe() {
  // The nearest folder that is there must let us in; the ones below it will be made.
  for (fs::path folder{folder_};; folder = folder.parent_path()) {
    std::error_code error;
    const fs::file_status status = fs::status(folder, error);
    if (status.type() == fs::file_type::not_found && folder.has_relative_path()) continue;
    const std::string doing = fmt::format("using the folder {}: {}", folder_, folder.native());
    if (error && status.type() != fs::file_type::not_found)
      return tl::unexpected(posix::error_of(error.value(), doing));
    if (status.type() != fs::file_type::directory) return tl::unexpected(posix::error_of(ENOTDIR, doing));
    if (::access(folder.c_str(), W_OK | X_OK) != 0) return tl::unexpected(posix::error_of(errno, doing));
    return {};
  }
}

Result<void> FileStore::put(std::string_view key, Pieces pieces, const PutOptions& options) {
  if (auto good = check_key(key); !good) return good;
  for (int tries = 1;; ++tries) {
    auto written = write_once(path_of(key), pieces, options);
    if (!written && written.error().kind == ErrorKind::not_found && tries < put_tries_max) continue;
    return written;
  }
}

Result<std::vector<std::byte>> FileStore::get(std::string_view key) {
  if (auto good = check_key(key); !good) return tl::unexpected(good.error());
  const std::string path = path_of(key);
  const auto file = posix::open_for_reading(path);
  if (!file) return tl::unexpected(file.error());
  const auto bytes = posix::file_bytes(*file, path);
  if (!bytes) return tl::unexpected(bytes.error());
  std::vector<std::byte> content(*bytes);
  return posix::read_at(*file, 0, content, path).map([&] { return std::move(content); });
}

Result<void> FileStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  if (auto good = check_key(key); !good) return good;
  const std::string path = path_of(key);
  const auto file = posix::open_for_reading(path);
  if (!file) return tl::unexpected(file.error());
  return posix::read_at(*file, offset, into, path);
}

Result<std::vector<ObjectInfo>> FileStore::list(std::string_view prefix) {
  // Only the folder that the prefix ends in is walked, and what in it leads to the prefix.
  const std::size_t slash = prefix.rfind('/');
  const std::string folder = slash == std::string_view::npos ? folder_ : path_of(prefix.substr(0, slash));
  if (slash != std::string_view::npos) {
    if (auto good = check_key(prefix.substr(0, slash)); !good) return tl::unexpected(good.error());
  }
  Found below;
  if (auto added = add_files_below(folder_, folder, prefix, below); !added) return tl::unexpected(added.error());
  std::vector<ObjectInfo>& found = below.objects;
  std::ranges::sort(found, {}, &ObjectInfo::key);
  return std::move(found);
}

Result<void> FileStore::remove(std::string_view key) {
  if (auto good = check_key(key); !good) return good;
  return remove_path(path_of(key));
}

Result<void> FileStore::remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) {
  Found below{.has_objects = false};
  if (auto added = add_files_below(folder_, folder_, "", below); !added) return added;
  for (const std::string& key : below.temporaries) {
    const std::size_t slash = key.rfind('/');
    if (slash == std::string::npos || !is_abandoned(std::string_view{key}.substr(0, slash))) continue;
    if (auto removed = remove_path(path_of(key)); !removed) return removed;
  }
  return {};
}

Result<void> FileStore::remove_path(const std::string& path) const {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return tl::unexpected(posix::error_of(errno, fmt::format("removing {}", path)));
  }
  // Folders are no objects: those that this leaves empty go too. One that is not empty stays, which is all that can
  // fail here.
  for (std::string folder = folder_of(path); folder.size() > folder_.size(); folder = folder_of(folder)) {
    if (::rmdir(folder.c_str()) != 0) break;
  }
  return {};
}

}  // namespace trainyard::storage

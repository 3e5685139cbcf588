#include "storage/file_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <utility>

#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/posix.hpp"
#include "storage/store.hpp"

namespace trainyard::storage {
namespace {

namespace fs = std::filesystem;

// Another process may remove a new folder, since it is empty, before a file is made in it.
constexpr int put_tries_max = 100;

constexpr std::string_view temporary_prefix = ".tmp-";
constexpr const char* mode_variable = "TRAINYARD_FILE_MODE";

std::string temporary_name() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}", temporary_prefix, random());
}

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::string> parts_of(std::string_view key) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    parts.emplace_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct Found {
  bool has_objects = true;  // False: finds no objects, and does not ask for their sizes.
  std::vector<ObjectInfo> objects;
  std::vector<std::string> temporaries;  // Keys.
};

// True when `key`, or a key below the folder `key`, may begin with `prefix`.
bool may_lead_to(std::string_view key, std::string_view prefix) {
  return key.starts_with(prefix) || (prefix.starts_with(key) && prefix[key.size()] == '/');
}

// True when `error` means that the entry was removed, or became something else, after it was listed.
bool is_no_entry(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::invalid;
}

// Adds the objects and folders whose keys begin with `prefix`. `key_of_folder` ends with '/', or is empty for the
// store's own folder. Does not enter other folders, which may be large.
Result<void> add_files_below(const posix::OpenFolder& folder, const std::string& key_of_folder, std::string_view prefix,
                             Found& found) {
  const auto entries = TRY(posix::entries_of(folder, [&](const std::string& name) {
    const std::string key = key_of_folder + name;
    if (!may_lead_to(key, prefix)) return false;
    if (name.starts_with(temporary_prefix)) found.temporaries.push_back(key);
    return check_key(key).has_value();
  }));
  for (const posix::FolderEntry& entry : entries) {
    const std::string key = key_of_folder + entry.name;
    if (entry.is_folder) {
      const auto below = posix::open_folder_in(folder, entry.name);
      if (!below && is_no_entry(below.error())) continue;
      TRY(below);
      if (auto added = add_files_below(*below, key + "/", prefix, found); !added && !is_no_entry(added.error()))
        return added;
    } else if (found.has_objects) {
      const auto bytes = posix::file_bytes_in(folder, entry.name);
      if (!bytes && !is_no_entry(bytes.error())) return tl::unexpected(bytes.error());
      if (bytes) found.objects.push_back({.key = key, .bytes = *bytes});
    }
  }
  return {};
}

// A not_found error names the object, and not the folder that is missing.
Error at_key(std::string_view key, Error error) {
  if (error.kind == ErrorKind::not_found) error.message = fmt::format("reading {}: {}", key, error.message);
  return error;
}

}  // namespace

Result<posix::Modes> file_modes(const Environment& environment) {
  const std::string text = first_of(environment, {mode_variable});
  if (text.empty()) return posix::Modes{};
  const auto mode = parse_number<unsigned int>(text, 8);
  if (!mode || (*mode & ~0666U) != 0 || (*mode & 0600U) != 0600U) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is '{}': write the permissions of files in octal, from 0600 (the owner alone) to 0666 "
                            "(everybody), such as 0660 for a group",
                            mode_variable, text));
  }
  return posix::Modes{.file = *mode, .folder = *mode | ((*mode & 0444U) >> 2U)};
}

FileStore::FileStore(std::string folder, FileStoreOptions options) : folder_{std::move(folder)}, options_{options} {}

FileStore::FileStore(std::string folder, FileSystemOf file_system) : FileStore(std::move(folder)) {
  file_system_ = std::move(file_system);
}

bool FileStore::is_cached_on_node() const {
  const auto magic = file_system_(folder_);
  return !magic || !is_network_file_system(*magic);
}

std::string FileStore::path_of(std::string_view key) const {
  return fmt::format("{}/{}", folder_, key);
}

Result<posix::OpenFolder> FileStore::open_root() const {
  if (options_.may_be_link) return posix::open_folder(folder_);
  const std::string above = folder_of(folder_);
  return posix::open_folder(above.empty() ? "/" : above).and_then([&](const posix::OpenFolder& parent) {
    return posix::open_folder_in(parent, name_of(folder_));
  });
}

Result<posix::OpenFolder> FileStore::make_root() const {
  auto root = open_root();
  if (root || root.error().kind != ErrorKind::not_found) return root;
  return posix::make_folder(folder_, options_.modes.folder);
}

Result<FileStore::Way> FileStore::begin_way(Result<posix::OpenFolder> root, std::string_view key) {
  TRY(root);
  Way way;
  way.folders.push_back(std::move(*root));
  way.names = parts_of(key);
  way.name = std::move(way.names.back());
  way.names.pop_back();
  return way;
}

Result<FileStore::Way> FileStore::find_way(std::string_view key) const {
  auto way = begin_way(open_root(), key);
  for (std::size_t i = 0; way && i < way->names.size(); ++i) {
    auto folder = TRY(posix::open_folder_in(way->last(), way->names[i]));
    way->folders.push_back(std::move(folder));
  }
  return way;
}

Result<FileStore::Way> FileStore::make_way(std::string_view key, std::vector<std::size_t>& changed) const {
  auto way = begin_way(make_root(), key);
  for (std::size_t i = 0; way && i < way->names.size(); ++i) {
    const auto made = TRY(posix::make_folder_in(way->last(), way->names[i], options_.modes.folder));
    if (made) changed.push_back(i);
    auto folder = TRY(posix::open_folder_in(way->last(), way->names[i]));
    way->folders.push_back(std::move(folder));
  }
  return way;
}

Result<void> FileStore::write_once(std::string_view key, Pieces pieces, const PutOptions& options) const {
  std::vector<std::size_t> changed;
  const auto way = TRY(make_way(key, changed));
  const posix::OpenFolder& folder = way.last();
  const std::string temporary = temporary_name();
  const auto file = TRY(posix::create_file_in(folder, temporary, options_.modes.file));
  auto written = posix::write_durably(file, pieces, fmt::format("{}/{}", folder.path, temporary));
  // The folders are synced last: a sync is slow, and the temporary file keeps other processes from removing them.
  for (const std::size_t parent : changed) {
    if (written) written = posix::sync_folder(way.folders[parent]);
  }
  if (written) {
    written = options.if_absent ? posix::publish_in(folder, temporary, way.name)
                                : posix::replace_in(folder, temporary, way.name);
  }
  if (!written) {
    // Return the first error. A temporary file that stays is hidden and harmless.
    static_cast<void>(posix::remove_file_in(folder, temporary));
    return written;
  }
  return posix::sync_folder(folder);
}

Result<std::string> FileStore::temporary_path(std::string_view key) const {
  std::vector<std::size_t> changed;
  return make_way(key, changed).map([](const Way& way) {
    return fmt::format("{}/{}", way.last().path, temporary_name());
  });
}

Result<void> FileStore::take_in(const std::string& temporary, std::string_view key) const {
  return find_way(key).and_then([&](const Way& way) {
    return posix::set_mode_in(way.last(), name_of(temporary), options_.modes.file).and_then([&] {
      return posix::replace_in(way.last(), name_of(temporary), way.name);
    });
  });
}

std::string FileStore::uri_of(std::string_view key) const {
  return fmt::format("file://{}", path_of(key));
}

Result<void> FileStore::probe() {
  // The nearest folder that exists must be writable; put() makes the folders below it.
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
  TRY(check_key(key));
  for (int tries = 1;; ++tries) {
    auto written = write_once(key, pieces, options);
    if (!written && written.error().kind == ErrorKind::not_found && tries < put_tries_max) continue;
    return written;
  }
}

Result<std::vector<std::byte>> FileStore::get(std::string_view key) {
  TRY(check_key(key));
  const auto way = find_way(key);
  if (!way) return tl::unexpected(at_key(key, way.error()));
  const auto file = TRY(posix::open_file_in(way->last(), way->name));
  const std::string path = path_of(key);
  const auto bytes = TRY(posix::file_bytes(file, path));
  std::vector<std::byte> content(bytes);
  return posix::read_at(file, 0, content, path).map([&] { return std::move(content); });
}

Result<void> FileStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  TRY(check_key(key));
  const auto way = find_way(key);
  if (!way) return tl::unexpected(at_key(key, way.error()));
  const auto file = TRY(posix::open_file_in(way->last(), way->name));
  return posix::read_at(file, offset, into, path_of(key));
}

Result<std::vector<ObjectInfo>> FileStore::list(std::string_view prefix) {
  // Walk only the folder in which the prefix ends, and in it only the names that match the prefix.
  const std::string key_of_folder{prefix.substr(0, prefix.rfind('/') + 1)};
  if (!key_of_folder.empty()) {
    TRY(check_key(prefix.substr(0, key_of_folder.size() - 1)));
  }
  const auto root = open_root();
  if (!root && root.error().kind == ErrorKind::not_found) return std::vector<ObjectInfo>{};
  TRY(root);
  const auto way = find_way(key_of_folder);
  if (!way && is_no_entry(way.error())) return std::vector<ObjectInfo>{};
  TRY(way);
  Found found;
  TRY(add_files_below(way->last(), key_of_folder, prefix, found));
  std::ranges::sort(found.objects, {}, &ObjectInfo::key);
  return std::move(found.objects);
}

Result<void> FileStore::remove(std::string_view key, const std::stop_token&) {
  TRY(check_key(key));
  return remove_file(key);
}

Result<void> FileStore::remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) {
  const auto root = open_root();
  if (!root && root.error().kind == ErrorKind::not_found) return {};
  TRY(root);
  Found below{.has_objects = false};
  TRY(add_files_below(*root, "", "", below));
  for (const std::string& key : below.temporaries) {
    const std::size_t slash = key.rfind('/');
    if (slash == std::string::npos || !is_abandoned(std::string_view{key}.substr(0, slash))) continue;
    TRY(remove_file(key));
  }
  return {};
}

Result<void> FileStore::remove_file(std::string_view key) const {
  const auto way = find_way(key);
  if (!way && way.error().kind == ErrorKind::not_found) return {};
  TRY(way);
  TRY(posix::remove_file_in(way->last(), way->name));
  // Also remove the folders that are empty now, since folders are no objects. A folder that is not empty stays.
  for (std::size_t i = way->names.size(); i > 0; --i) {
    if (!posix::remove_folder_in(way->folders[i - 1], way->names[i - 1])) break;
  }
  return {};
}

}  // namespace trainyard::storage

#include "checkpoint/interchange/new_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "storage/posix.hpp"

namespace trainyard::checkpoint {
namespace {

namespace fs = std::filesystem;
namespace posix = storage::posix;

constexpr std::size_t bytes_per_write = std::size_t{64} << 20;

tl::unexpected<Error> failed(const std::string& path) {
  return tl::unexpected(posix::error_of(errno, fmt::format("writing {}", path)));
}

tl::unexpected<Error> is_there(const std::string& path) {
  return fail(ErrorKind::already_exists, fmt::format("{} is already there: name another file, or give --force", path));
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string hidden_name_beside(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  std::random_device random;
  return fmt::format("{}/.{}.tmp-{:08x}", folder_of(path), name.substr(0, 200), random());
}

Result<NewFile> NewFile::create(const std::string& path, bool may_replace) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode))
    return fail(ErrorKind::invalid, fmt::format("{} is a folder: name a file in it", path));
  if (exists && !may_replace) return is_there(path);
  const std::string temporary = hidden_name_beside(path);
  auto file = posix::create_file(temporary);
  if (!file && file.error().kind == ErrorKind::not_found)
    return fail(ErrorKind::not_found, fmt::format("there is no folder {} to write {} into", folder_of(path), path));
  TRY(file);
  return NewFile{std::move(*file), path, temporary, may_replace};
}

NewFile::NewFile(NewFile&& other) noexcept
    : file_{std::move(other.file_)},
      path_{std::move(other.path_)},
      temporary_{std::exchange(other.temporary_, {})},
      may_replace_{other.may_replace_} {}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), std::min(bytes.size(), bytes_per_write));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> NewFile::patch(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Result<void> NewFile::commit() {
  if (::fsync(file_.get()) != 0) return failed(path_);
  auto named = may_replace_ ? posix::replace(temporary_, path_) : posix::publish(temporary_, path_);
  if (!named && named.error().kind == ErrorKind::already_exists) return is_there(path_);
  TRY(named);
  temporary_.clear();
  return posix::sync_directory(folder_of(path_));
}

NewFolder::~NewFolder() {
  std::error_code ignored;  // A failure leaves only a hidden folder.
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

Result<void> NewFolder::check_free() const {
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_empty(path_, error)) return is_there();
  return {};
}

Result<NewFile> NewFolder::create(const std::string& key) const {
  const std::string file = temporary_ + "/" + key;
  return make_folder_of(file).and_then([&] { return NewFile::create(file, false); });
}

Result<void> NewFolder::write(const std::string& key, std::string_view content) const {
  auto file = TRY(create(key));
  return file.write(std::as_bytes(std::span{content})).and_then([&] { return file.commit(); });
}

Result<void> NewFolder::commit() {
  // rename() replaces an empty folder, and no other.
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) return is_there();
    return tl::unexpected(storage::posix::error_of(errno, fmt::format("naming the folder {}", path_)));
  }
  temporary_.clear();
  return storage::posix::sync_directory(folder_of(path_));
}

Result<void> NewFolder::make_folder_of(const std::string& file) const {
  return storage::posix::make_directories(folder_of(file)).and_then([](const std::vector<std::string>& changed) {
    Result<void> synced;
    for (const std::string& folder : changed) {
      if (synced) synced = storage::posix::sync_directory(folder);
    }
    return synced;
  });
}

tl::unexpected<Error> NewFolder::is_there() const {
  return fail(ErrorKind::already_exists,
              fmt::format("{} is already there and is not an empty folder: name a new one", path_));
}

}  // namespace trainyard::checkpoint

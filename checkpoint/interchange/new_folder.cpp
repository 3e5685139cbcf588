#include "checkpoint/interchange/new_folder.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <span>
#include <vector>

#include "common/try.hpp"
#include "storage/posix.hpp"

namespace trainyard::checkpoint {
namespace {

namespace fs = std::filesystem;

}  // namespace

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

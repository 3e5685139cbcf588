#include "worker/data/fetch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.hpp"
#include "common/file_descriptor.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "storage/posix.hpp"
#include "storage/store.hpp"

namespace trainyard::data {
namespace {

using namespace std::chrono_literals;
namespace posix = storage::posix;

constexpr std::uint64_t piece_bytes = 16ULL << 20;
constexpr auto look_interval = 100ms;

/// `error` as one of the kind io. Its own kind may be one for which a start asks the storage again.
Error of_this_machine(Error error) {
  error.kind = ErrorKind::io;
  return error;
}

/// A lock between the processes of a machine. The kernel releases it when its process ends, even by a kill.
class FileLock {
 public:
  FileLock(const FileLock&) = delete;
  FileLock(FileLock&& other) noexcept : descriptor_{std::exchange(other.descriptor_, -1)} {}
  ~FileLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  static Result<FileLock> take(const posix::OpenFolder& folder, mode_t mode, const std::function<void()>& on_progress) {
    constexpr const char* name = ".lock";
    const std::string file = fmt::format("{}/{}", folder.path, name);
    const auto made = posix::create_file_in(folder, name, mode);
    if (!made && made.error().kind != ErrorKind::already_exists) return tl::unexpected(of_this_machine(made.error()));
    FileLock lock{::openat(folder.descriptor.get(), name, O_RDWR | O_NOFOLLOW | O_CLOEXEC)};
    if (lock.descriptor_ < 0)
      return tl::unexpected(of_this_machine(posix::error_of(errno, fmt::format("opening the lock {}", file))));
    while (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return fail(ErrorKind::io, fmt::format("locking {}: {}", file, std::strerror(errno)));
      }
      on_progress();
      std::this_thread::sleep_for(
          look_interval);  // flock cannot wait with a deadline, and on_progress must be called meanwhile.
    }
    return lock;
  }

 private:
  explicit FileLock(int descriptor) : descriptor_{descriptor} {}
  int descriptor_;
};

/// Makes the empty file at `file`, in place of one that a killed process has left, and the missing folders above it.
Result<void> make_file(const std::filesystem::path& file, const posix::Modes& modes) {
  const std::string name = file.filename();
  return posix::make_folder(file.parent_path(), modes.folder)
      .and_then([&](const posix::OpenFolder& folder) {
        return posix::remove_file_in(folder, name).and_then([&] {
          return posix::create_file_in(folder, name, modes.file);
        });
      })
      .map([](const FileDescriptor&) {})
      .map_error(of_this_machine);
}

Result<void> copy_object(storage::Store& store, const storage::ObjectInfo& object, const std::filesystem::path& file,
                         const posix::Modes& modes, const std::function<void()>& on_progress) {
  const std::filesystem::path unfinished = file.string() + ".part";
  TRY(make_file(unfinished, modes));
  std::ofstream out{unfinished, std::ios::binary | std::ios::trunc};
  std::vector<std::byte> piece;
  for (std::uint64_t begin = 0; begin < object.bytes && out; begin += piece.size()) {
    piece.resize(std::min(piece_bytes, object.bytes - begin));
    TRY(store.get_range(object.key, begin, piece));
    out.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
    on_progress();
  }
  out.close();
  if (!out) return fail(ErrorKind::io, fmt::format("writing {}: {}", unfinished.string(), std::strerror(errno)));
  std::error_code error;
  std::filesystem::rename(unfinished, file, error);
  if (error) return fail(ErrorKind::io, fmt::format("renaming {}: {}", unfinished.string(), error.message()));
  return {};
}

/// The objects whose keys can be file names below a folder. Skips what other programs put beside the data (folder
/// markers, hidden files) and keys that would lead out of the folder.
std::vector<storage::ObjectInfo> files_among(std::vector<storage::ObjectInfo> objects, const storage::Store& store) {
  const auto first_left_out = std::stable_partition(
      objects.begin(), objects.end(), [](const auto& object) { return storage::check_key(object.key).has_value(); });
  if (first_left_out != objects.end()) {
    logging::warn("objects are skipped: their names cannot be file names",
                  {{"uri", store.uri_of("")},
                   {"count", std::distance(first_left_out, objects.end())},
                   {"first", storage::check_key(first_left_out->key).error().message}});
  }
  objects.erase(first_left_out, objects.end());
  return objects;
}

bool is_there(const std::filesystem::path& file, std::uint64_t bytes) {
  std::error_code error;
  return std::filesystem::file_size(file, error) == bytes && !error;
}

}  // namespace

std::filesystem::path cache_folder(const std::filesystem::path& cache, std::string_view uri) {
  std::string name{uri};
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '-');
  // The readable name is not unique ("a/b" and "a-b"); the hash makes it so.
  return cache / fmt::format("{}-{:016x}", name.substr(0, 100), std::hash<std::string_view>{}(uri));
}

Result<void> fetch(storage::Store& store, const std::filesystem::path& folder, const posix::Modes& modes,
                   const std::function<void()>& on_progress) {
  const auto opened = TRY(posix::make_folder(folder, modes.folder).map_error(of_this_machine));
  const auto lock = TRY(FileLock::take(opened, modes.file, on_progress));

  auto objects = TRY(store.list(""));
  const std::vector<storage::ObjectInfo> files = files_among(std::move(objects), store);
  if (files.empty()) return fail(ErrorKind::not_found, fmt::format("there is nothing under {}", store.uri_of("")));
  for (const storage::ObjectInfo& object : files) {
    const std::filesystem::path file = folder / object.key;
    if (is_there(file, object.bytes)) continue;
    TRY(copy_object(store, object, file, modes, on_progress));
  }
  return {};
}

}  // namespace trainyard::data

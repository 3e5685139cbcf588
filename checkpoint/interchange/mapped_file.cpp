#include "checkpoint/interchange/mapped_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "common/try.hpp"
#include "storage/posix.hpp"

namespace trainyard::checkpoint {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const auto failed_to = [&](std::string_view what) {
    return tl::unexpected(storage::posix::error_of(errno, fmt::format("{} {}", what, path)));
  };
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return failed_to("opening");
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, fmt::format("{} is no file", path));
  const auto file = TRY(storage::posix::open_for_reading(path));
  if (::fstat(file.get(), &status) != 0) return failed_to("looking at");
  if (status.st_size == 0) return fail(ErrorKind::invalid, fmt::format("{} is empty", path));
  const auto size = static_cast<std::size_t>(status.st_size);
  // MAP_NORESERVE, since a file may be larger than this machine's memory.
  void* const begin = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (begin == MAP_FAILED) return failed_to("mapping");
  return MappedFile{std::span{static_cast<std::byte*>(begin), size}};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace trainyard::checkpoint

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

/// The calls to the operating system that a file store makes, with errno translated once. Any thread may call.
namespace trainyard::storage::posix {

/// The error of a failed call: "<doing>: <the system's words>", with advice where there is any. EACCES, EPERM and EROFS
/// are forbidden; a path that cannot be is invalid; ENOENT is not_found; a stale network mount is unavailable; the
/// rest, such as a full disk, is io.
[[nodiscard]] Error error_of(int error_number, std::string_view doing);

/// Makes `folder` with its parents where they are missing, for all whom the umask lets in. Returns the folders that got
/// a new name in them, which sync_directory() makes durable.
[[nodiscard]] Result<std::vector<std::string>> make_directories(const std::string& folder);

/// Makes what happened to the names in `folder` durable.
[[nodiscard]] Result<void> sync_directory(const std::string& folder);

/// A new file at `path` for all whom the umask lets in; already_exists when there is one.
[[nodiscard]] Result<FileDescriptor> create_file(const std::string& path);
[[nodiscard]] Result<FileDescriptor> open_for_reading(const std::string& path);
[[nodiscard]] Result<std::uint64_t> file_bytes(const FileDescriptor& file, std::string_view path);

/// Writes `pieces` in order and syncs the file.
[[nodiscard]] Result<void> write_durably(const FileDescriptor& file, std::span<const std::span<const std::byte>> pieces,
                                         std::string_view path);

/// Fills `into` from `offset` on; corrupt when the file ends before.
[[nodiscard]] Result<void> read_at(const FileDescriptor& file, std::uint64_t offset, std::span<std::byte> into,
                                   std::string_view path);

/// Gives `from` the name `to`, whatever was there before.
[[nodiscard]] Result<void> replace(const std::string& from, const std::string& to);
/// Gives `from` the name `to`; already_exists when there is something of that name. Atomic, also over NFS.
[[nodiscard]] Result<void> publish(const std::string& from, const std::string& to);

}  // namespace trainyard::storage::posix

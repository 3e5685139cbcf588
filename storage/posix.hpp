#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

/// The operating system's calls on files, with errno translated to an Error. Any thread may call.
namespace trainyard::storage::posix {

/// The error of a failed call: "<doing>: <the system's words>", with advice where there is any. EACCES, EPERM and EROFS
/// are forbidden; an impossible path is invalid; ENOENT is not_found; a stale network mount is unavailable; the
/// rest, such as a full disk, is io.
[[nodiscard]] Error error_of(int error_number, std::string_view doing);

/// Makes `folder` and its missing parents, with the permissions that the umask leaves. Returns the folders that contain
/// a new name, for the caller to sync_directory().
[[nodiscard]] Result<std::vector<std::string>> make_directories(const std::string& folder);

/// Makes the names in `folder` durable.
[[nodiscard]] Result<void> sync_directory(const std::string& folder);

/// A new file at `path`, with the permissions that the umask leaves; already_exists when something is at `path`.
[[nodiscard]] Result<FileDescriptor> create_file(const std::string& path);
[[nodiscard]] Result<FileDescriptor> open_for_reading(const std::string& path);
[[nodiscard]] Result<std::uint64_t> file_bytes(const FileDescriptor& file, std::string_view path);

/// Writes `pieces` in order and syncs the file.
[[nodiscard]] Result<void> write_durably(const FileDescriptor& file, std::span<const std::span<const std::byte>> pieces,
                                         std::string_view path);

/// Fills `into` with the bytes from `offset` on; corrupt when the file is shorter.
[[nodiscard]] Result<void> read_at(const FileDescriptor& file, std::uint64_t offset, std::span<std::byte> into,
                                   std::string_view path);

/// Renames `from` to `to`, and replaces a file of that name.
[[nodiscard]] Result<void> replace(const std::string& from, const std::string& to);
/// Renames `from` to `to`; already_exists when something of that name exists. Atomic, also over NFS.
[[nodiscard]] Result<void> publish(const std::string& from, const std::string& to);

}  // namespace trainyard::storage::posix

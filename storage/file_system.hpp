#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trainyard::storage {

/// What kind of file system holds a path, as the number in statfs(2)'s f_type; nothing where that cannot be asked.
using FileSystemOf = std::function<std::optional<std::uint32_t>(const std::string& path)>;

/// The same, asked of the system for `path` or the nearest folder above it that is there.
[[nodiscard]] std::optional<std::uint32_t> file_system_of(const std::string& path);

/// Whether every machine that reads from such a file system fetches the bytes over the network: NFS, SMB, the parallel
/// ones, and all in user space, of which most are. Pure. Source: statfs(2) and each file system's own headers.
[[nodiscard]] bool is_network_file_system(std::uint32_t magic);

}  // namespace trainyard::storage

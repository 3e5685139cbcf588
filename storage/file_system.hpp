#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trainyard::storage {

/// What kind of file system holds a path, as the number in statfs(2)'s f_type; nothing where that cannot be asked.
using FileSystemOf = std::function<std::optional<std::uint32_t>(const std::string& path)>;

/// Asks the system about `path`, or about the nearest folder above it that exists.
[[nodiscard]] std::optional<std::uint32_t> file_system_of(const std::string& path);

/// True when machines fetch the bytes of such a file system over the network: NFS, SMB, the parallel ones, and all of
/// FUSE, since most of those do. Pure. Source: statfs(2) and each file system's own headers.
[[nodiscard]] bool is_network_file_system(std::uint32_t magic);

}  // namespace trainyard::storage

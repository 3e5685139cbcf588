#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trainyard::storage {

/// Returns the kind of the file system that holds `path`: statfs(2)'s f_type; empty where statfs fails.
using FileSystemOf = std::function<std::optional<std::uint32_t>(const std::string& path)>;

/// Asks the operating system about `path`, or about the nearest folder above it that exists.
[[nodiscard]] std::optional<std::uint32_t> file_system_of(const std::string& path);

/// True for file systems whose bytes come over the network: NFS, SMB, the parallel file systems, and every FUSE, since
/// most FUSE file systems do. Pure. Source: statfs(2) and each file system's own headers.
[[nodiscard]] bool is_network_file_system(std::uint32_t magic);

}  // namespace trainyard::storage

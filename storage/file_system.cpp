#include "storage/file_system.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

namespace trainyard::storage {
namespace {

constexpr std::array<std::uint32_t, 19> network_magics = {
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF534D42,  // CIFS
    0xFE534D42,  // SMB 2 and 3
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS, Spectrum Scale
    0x00C36400,  // CephFS
    0x65735546,  // FUSE: GlusterFS, JuiceFS, gcsfuse, Mountpoint for S3, virtiofs
    0x19830326,  // BeeGFS
    0x01021997,  // 9p
    0x5346414F,  // OpenAFS
    0x6B414653,  // AFS
    0x73757245,  // Coda
    0x564C,      // NCP
    0x20030528,  // OrangeFS
    0xAAD7AAEA,  // PanFS
    0x18031977,  // WekaFS
    0x01161970,  // GFS2
    0x7461636F,  // OCFS2
};

}  // namespace

std::optional<std::uint32_t> file_system_of(const std::string& path) {
  for (std::filesystem::path folder{path};; folder = folder.parent_path()) {
    struct statfs found {};
    if (::statfs(folder.c_str(), &found) == 0) return static_cast<std::uint32_t>(found.f_type);
    if (errno != ENOENT || !folder.has_relative_path()) return std::nullopt;
  }
}

bool is_network_file_system(std::uint32_t magic) {
  return std::ranges::find(network_magics, magic) != network_magics.end();
}

}  // namespace trainyard::storage

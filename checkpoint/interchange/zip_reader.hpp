#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::checkpoint {

struct ZipEntry {
  std::uint64_t offset = 0;        ///< Where the stored bytes begin in the archive.
  std::uint64_t stored_bytes = 0;  ///< The size in the archive.
  std::uint64_t bytes = 0;         ///< The unpacked size.
  bool is_packed = false;          ///< By deflate.
  std::uint32_t crc32 = 0;         ///< The checksum of the unpacked bytes.
};

/// The entries of a zip archive in memory, of any size (zip64). The archive is not trusted: open() checks that no entry
/// lies outside the archive or overlaps another, and that no name is there twice. Source: PKWARE's APPNOTE 6.3.9.
class ZipReader {
 public:
  /// ErrorKind::corrupt for an archive that is cut off or contradicts itself; invalid for bytes that are no archive,
  /// and for one that is encrypted, in several parts, or packed otherwise than by deflate.
  [[nodiscard]] static Result<ZipReader> open(std::span<std::byte> archive);

  [[nodiscard]] const std::map<std::string, ZipEntry>& entries() const { return entries_; }

  /// The entry's bytes: in the archive if they are stored, else unpacked into `buffer`, which must be empty.
  /// ErrorKind::corrupt if the checksum differs.
  [[nodiscard]] Result<std::span<std::byte>> read(const ZipEntry& entry, std::vector<std::byte>& buffer) const;

 private:
  explicit ZipReader(std::span<std::byte> archive) : archive_{archive} {}

  std::span<std::byte> archive_;
  std::map<std::string, ZipEntry> entries_;
};

}  // namespace trainyard::checkpoint

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
  std::uint64_t offset = 0;        ///< Of its bytes in the archive.
  std::uint64_t stored_bytes = 0;  ///< There.
  std::uint64_t bytes = 0;         ///< Once unpacked.
  bool is_packed = false;          ///< By deflate.
  std::uint32_t crc32 = 0;         ///< Of the unpacked bytes.
};

/// What is in a zip archive that lies in memory, of any size (zip64). What others wrote is not trusted: no entry lies
/// outside of the archive or over another, and none has two names. Source: PKWARE's APPNOTE 6.3.9.
class ZipReader {
 public:
  /// ErrorKind::corrupt for an archive that is cut off or contradicts itself, invalid for what is none, and for one
  /// that is encrypted, packed otherwise than by deflate, or in several parts.
  [[nodiscard]] static Result<ZipReader> open(std::span<std::byte> archive);

  [[nodiscard]] const std::map<std::string, ZipEntry>& entries() const { return entries_; }

  /// The entry's bytes: in the archive where they are stored there, else unpacked into `buffer`, which must be empty.
  /// ErrorKind::corrupt where they are not those that were written.
  [[nodiscard]] Result<std::span<std::byte>> read(const ZipEntry& entry, std::vector<std::byte>& buffer) const;

 private:
  explicit ZipReader(std::span<std::byte> archive) : archive_(archive) {}

  std::span<std::byte> archive_;
  std::map<std::string, ZipEntry> entries_;
};

}  // namespace trainyard::checkpoint

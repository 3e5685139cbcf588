#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/interchange/new_file.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// Writes a zip archive of stored (not compressed) entries. Each entry's bytes begin at a multiple of 64, so that a
/// reader can map the file. Entries and archive may have any size (zip64). Source: PKWARE's APPNOTE 6.3.9; the padding
/// is that of torch's PyTorchStreamWriter.
class ZipWriter {
 public:
  /// `sink` outlives it, and is empty.
  explicit ZipWriter(Sink& sink) : sink_{sink} {}

  /// Begins an entry of exactly `bytes` bytes. Give them to append(), then call end().
  [[nodiscard]] Result<void> begin(std::string name, std::uint64_t bytes);
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> end();
  /// Writes a whole entry at once.
  [[nodiscard]] Result<void> add(std::string name, std::string_view content);
  /// Writes the directory, which completes the archive.
  [[nodiscard]] Result<void> finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;  // Where its local header begins.
    std::uint32_t crc32 = 0;
  };
  [[nodiscard]] Result<void> write(std::string_view text);

  Sink& sink_;
  std::vector<Entry> entries_;
  std::uint64_t position_ = 0;
};

}  // namespace trainyard::checkpoint

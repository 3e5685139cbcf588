#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"

namespace trainyard::checkpoint {

/// A chunk in rank `rank`'s data file.
struct Part {
  std::int64_t rank = 0;
  Chunk chunk;
};

/// An entry, or one rank's tensor of a per_rank entry, and where its bytes lie.
struct StoredTensor {
  EntryInfo info;
  std::optional<std::int64_t> rank;  ///< For per_rank entries only.
  std::vector<Part> parts;           ///< In the order of their rows.
  std::string fault;  ///< How the manifest contradicts itself; empty: the parts hold every row exactly once.

  /// The entry's name; for a per_rank entry with the rank's number appended.
  [[nodiscard]] std::string name() const;
};

/// Every tensor of a checkpoint, in the entries' order. Reads no bytes. Pure.
[[nodiscard]] std::vector<StoredTensor> stored_tensors(const Manifest& manifest);

/// The manifest's chunks that belong to no entry or exceed their file, each in a sentence that names the file. Does not
/// repeat a StoredTensor's fault.
[[nodiscard]] std::vector<std::string> stray_chunks(const Manifest& manifest);

}  // namespace trainyard::checkpoint

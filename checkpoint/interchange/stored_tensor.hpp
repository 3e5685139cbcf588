#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"

namespace trainyard::checkpoint {

/// A run of an entry's bytes in rank `rank`'s data file.
struct Part {
  std::int64_t rank = 0;
  Chunk chunk;
};

/// One entry, or one rank's own of a per-rank entry, and where its bytes lie.
struct StoredTensor {
  EntryInfo info;
  std::optional<std::int64_t> rank;  ///< Of per-rank entries only.
  std::vector<Part> parts;           ///< In the order of the rows.
  std::string fault;                 ///< What contradicts itself; empty: the parts hold every row exactly once.

  /// The entry's name, with the rank's number behind those of per-rank entries.
  [[nodiscard]] std::string name() const;
};

/// Every tensor of a checkpoint in the entries' order. Pure: no byte is read.
[[nodiscard]] std::vector<StoredTensor> stored_tensors(const Manifest& manifest);

/// What the manifest says of chunks and does not go together with its entries and files, each a sentence that names the
/// rank's file. Faults of a StoredTensor are not repeated.
[[nodiscard]] std::vector<std::string> stray_chunks(const Manifest& manifest);

}  // namespace trainyard::checkpoint

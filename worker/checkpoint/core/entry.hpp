#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

/// Where an entry's bytes live, which decides who writes them and who reads them.
enum class Placement {
  replicated,  ///< Equal on every rank: the bytes are split over the ranks for writing.
  rank0,       ///< Rank 0's counts (buffers, metrics): only it writes, all read.
  per_rank,    ///< Each rank its own (RNG): each writes and reads its own.
};

/// What is known of an entry but its bytes.
struct EntryInfo {
  std::string name;
  Placement placement = Placement::replicated;
  std::string dtype;  ///< safetensors' name ("F32", "BF16"), or another that its writer and reader agree on.
  std::vector<std::int64_t> shape;  ///< Row-major.
  std::uint64_t bytes = 0;
  bool operator==(const EntryInfo&) const = default;
};

/// An entry and its bytes in host memory, which belongs to the caller.
struct HostEntry {
  EntryInfo info;
  std::span<std::byte> bytes;
};

/// The number of slices along the first dimension, which is what an entry can be cut into; 1 for a scalar.
[[nodiscard]] inline std::uint64_t row_count(const EntryInfo& info) {
  return info.shape.empty() ? 1 : static_cast<std::uint64_t>(info.shape.front());
}

/// Bytes of one such slice; 0 for an empty entry.
[[nodiscard]] inline std::uint64_t row_bytes(const EntryInfo& info) {
  return row_count(info) == 0 ? 0 : info.bytes / row_count(info);
}

}  // namespace trainyard::checkpoint

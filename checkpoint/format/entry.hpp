#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

// What the names of a training's entries begin with. Behind model_prefix stands the tensor's name in a state dict.
inline constexpr std::string_view model_prefix = "model.";
inline constexpr std::string_view optimizer_prefix = "optimizer.";
inline constexpr std::string_view random_prefix = "rng.";

/// Where an entry's bytes live, which decides who writes them and who reads them.
enum class Placement {
  replicated,  ///< Equal on every rank: the bytes are split over the ranks for writing.
  rank0,       ///< Rank 0's counts (buffers, metrics): only it writes, all read.
  per_rank,    ///< Each rank its own (RNG): each writes and reads its own.
  sharded,     ///< Cut over the ranks by rows: each writes and reads those that it holds, all together every row once.
};

/// What is known of an entry but its bytes. Of a sharded one shape and bytes are the whole tensor's, on every rank.
struct EntryInfo {
  std::string name;
  Placement placement = Placement::replicated;
  std::string dtype;  ///< safetensors' name ("F32", "BF16"), or another that its writer and reader agree on.
  std::vector<std::int64_t> shape;  ///< Row-major.
  std::uint64_t bytes = 0;
  bool operator==(const EntryInfo&) const = default;
};

/// Rows [begin, end) of an entry, along its first dimension.
struct Rows {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const Rows&) const = default;
};

/// An entry and its bytes in host memory, which belongs to the caller.
struct HostEntry {
  EntryInfo info;
  std::span<std::byte> bytes;
  std::optional<Rows> rows{};  ///< Those that `bytes` holds, of a sharded entry. Nothing: all.
};

/// The number of slices along the first dimension, which is what an entry can be cut into; 1 for a scalar.
[[nodiscard]] inline std::uint64_t row_count(const EntryInfo& info) {
  return info.shape.empty() ? 1 : static_cast<std::uint64_t>(info.shape.front());
}

/// Bytes of one such slice; 0 for an empty entry.
[[nodiscard]] inline std::uint64_t row_bytes(const EntryInfo& info) {
  return row_count(info) == 0 ? 0 : info.bytes / row_count(info);
}

/// The rows whose bytes this rank holds.
[[nodiscard]] inline Rows held_rows(const HostEntry& entry) {
  return entry.rows.value_or(Rows{.begin = 0, .end = row_count(entry.info)});
}

}  // namespace trainyard::checkpoint

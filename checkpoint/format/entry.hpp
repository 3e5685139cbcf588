#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

// Prefixes of the names of a training's entries. After model_prefix follows the tensor's name in a state dict.
inline constexpr std::string_view model_prefix = "model.";
inline constexpr std::string_view optimizer_prefix = "optimizer.";
inline constexpr std::string_view random_prefix = "rng.";
inline constexpr std::string_view ema_prefix = "ema.";        // A parameter's moving average, by the parameter's name.
inline constexpr std::string_view scaler_prefix = "scaler.";  // The loss's scale in 16-mixed.
inline constexpr std::string_view strategy_prefix = "strategy.";  // A rank's own state of the exchange of gradients.
inline constexpr std::string_view callback_prefix = "callback.";  // State of a callback: its name and a tensor's.

/// Which ranks hold an entry's bytes. This decides which ranks write them and which read them.
enum class Placement {
  replicated,  ///< Equal on every rank: each rank writes a part of the bytes, and reads all.
  rank0,       ///< Rank 0's bytes are the valid ones (the model's buffers): only rank 0 writes, all ranks read.
  per_rank,    ///< Different on each rank (RNG): each rank writes and reads its own.
  sharded,     ///< Cut over the ranks by rows, each row on one rank: a rank writes and reads the rows that it holds.
};

/// All that describes an entry except its bytes. `shape` and `bytes` of a sharded entry are the whole tensor's, on
/// every rank.
struct EntryInfo {
  std::string name;
  Placement placement = Placement::replicated;
  std::string dtype;                ///< safetensors' name ("F32", "BF16"), else torch's name.
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

/// An entry with its bytes in host memory. The memory belongs to the caller.
struct HostEntry {
  EntryInfo info;
  std::span<std::byte> bytes;
  std::optional<Rows> rows{};  ///< The rows of a sharded entry that `bytes` holds. Nothing: all rows.
};

/// The entry's size along its first dimension, along which it can be cut; 1 for a scalar.
[[nodiscard]] inline std::uint64_t row_count(const EntryInfo& info) {
  return info.shape.empty() ? 1 : static_cast<std::uint64_t>(info.shape.front());
}

/// The bytes of one row; 0 for an empty entry.
[[nodiscard]] inline std::uint64_t row_bytes(const EntryInfo& info) {
  return row_count(info) == 0 ? 0 : info.bytes / row_count(info);
}

/// The rows whose bytes this rank holds.
[[nodiscard]] inline Rows held_rows(const HostEntry& entry) {
  return entry.rows.value_or(Rows{.begin = 0, .end = row_count(entry.info)});
}

}  // namespace trainyard::checkpoint

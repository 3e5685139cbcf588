#pragma once

#include <cstdint>
#include <vector>

namespace trainyard::strategy {

/// Rows [begin, end) of a parameter along its first dimension. A scalar has one row.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t count() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

struct RowSize {
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
};

/// The rows of each rank, by parameter. Each rank gets an equal number of a parameter's rows, next to each other, in
/// rank order. The rows that are left over go to the ranks that have the fewest bytes so far, so that no rank has more
/// than another by more than the bytes of one row of the widest parameter. Pure.
[[nodiscard]] std::vector<std::vector<RowRange>> cut_rows(const std::vector<RowSize>& parameters,
                                                          std::int64_t world_size);

/// The memory of a rank whose optimizer updates a part of each parameter. Activations and buffers are not in it.
struct ShardedMemory {
  std::int64_t parameter_bytes = 0;  ///< All parameters, or those that the rank keeps between steps.
  /// While operators use parameters of which the rank keeps parts: those of two buckets, and what is sent and received
  /// for the next one.
  std::int64_t gathered_bytes = 0;
  std::int64_t gradient_bytes = 0;  ///< The gradients of the rank's rows.
  std::int64_t state_bytes = 0;     ///< The optimizer's state of the rank's rows.
  /// While a bucket is sent: what is sent, what is received, and the gradients of the next bucket.
  std::int64_t bucket_bytes = 0;
  [[nodiscard]] std::int64_t total() const {
    return parameter_bytes + gathered_bytes + gradient_bytes + state_bytes + bucket_bytes;
  }
  bool operator==(const ShardedMemory&) const = default;
};

struct ShardedSizes {
  std::int64_t parameter_bytes = 0;
  std::int64_t untrained_bytes = 0;  ///< Size of the parameters that no rank updates.
  std::int64_t own_bytes = 0;        ///< Size of the parameters' rows that the rank updates.
  std::int64_t state_bytes = 0;      ///< Size of the optimizer's state on this rank.
  std::int64_t largest_bucket_bytes = 0;
  /// All gradients of a step are there before the first is sent.
  bool keeps_gradients = false;
  /// Between steps the rank keeps its own rows only.
  bool shards_parameters = false;
};

[[nodiscard]] ShardedMemory sharded_memory(const ShardedSizes& sizes);

}  // namespace trainyard::strategy

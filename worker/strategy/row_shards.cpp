#include "worker/strategy/row_shards.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace trainyard::strategy {

std::vector<std::vector<RowRange>> cut_rows(const std::vector<RowSize>& parameters, std::int64_t world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  std::vector<std::int64_t> bytes(ranks, 0);  // by rank
  std::vector<std::vector<RowRange>> cuts;
  for (const RowSize& parameter : parameters) {
    std::vector<std::size_t> by_load(ranks);
    std::iota(by_load.begin(), by_load.end(), std::size_t{0});
    std::ranges::stable_sort(by_load, {}, [&](std::size_t rank) { return bytes[rank]; });
    std::vector<std::int64_t> counts(ranks, parameter.rows / world_size);
    const auto left = static_cast<std::size_t>(parameter.rows % world_size);
    for (std::size_t place = 0; place < left; ++place) ++counts[by_load[place]];
    std::vector<RowRange>& ranges = cuts.emplace_back();
    std::int64_t row = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ranges.push_back({.begin = row, .end = row + counts[rank]});
      row += counts[rank];
      bytes[rank] += counts[rank] * parameter.row_bytes;
    }
  }
  return cuts;
}

ShardedMemory sharded_memory(const ShardedSizes& sizes) {
  constexpr std::int64_t sent_and_received = 2;
  constexpr std::int64_t used_and_gathered = 4;
  return {.parameter_bytes = sizes.shards_parameters ? sizes.untrained_bytes + sizes.own_bytes : sizes.parameter_bytes,
          .gathered_bytes = sizes.shards_parameters ? used_and_gathered * sizes.largest_bucket_bytes : 0,
          .gradient_bytes = sizes.own_bytes,
          .state_bytes = sizes.state_bytes,
          .bucket_bytes = sent_and_received * sizes.largest_bucket_bytes +
                          (sizes.keeps_gradients ? sizes.parameter_bytes : sizes.largest_bucket_bytes)};
}

}  // namespace trainyard::strategy

#pragma once

#include <memory>
#include <vector>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// Bagua's ByteGrad: gradients travel as bytes (min_max_uint8.hpp). A bucket is cut into a chunk for each rank. Each
/// rank sends its part of each chunk to that chunk's rank, which reads them, takes their mean and sends it to all.
[[nodiscard]] std::unique_ptr<BucketExchange> make_byte_grad(std::vector<ExchangedBucket> buckets,
                                                             c10::intrusive_ptr<c10d::ProcessGroup> process_group);

}  // namespace trainyard::strategy

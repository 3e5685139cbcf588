#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard::strategy {

struct BucketLimits {
  std::int64_t first_bytes = std::int64_t{1}
                             << 20;  ///< Small, so that the first reduction begins early in the backward pass.
  std::int64_t bytes = std::int64_t{25} << 20;
};

/// Indices into a list of parameters whose gradients are reduced together.
using BucketIndices = std::vector<std::size_t>;

/// The buckets of `parameters`, in the order in which a backward pass fills them: from the last parameter to the first.
/// A bucket holds one dtype and device. It is closed once it reaches its limit, which it may exceed by less than one
/// parameter.
[[nodiscard]] std::vector<BucketIndices> assign_buckets(const std::vector<torch::Tensor>& parameters,
                                                        const BucketLimits& limits = {});

}  // namespace trainyard::strategy

#pragma once

#include <torch/types.h>

namespace trainyard::data {

/// A part of a data set, as it is published.
enum class Part { train, validation };

/// Images held in memory with the class of each.
struct LabeledImages {
  torch::Tensor images;  ///< uint8 [N, 1, H, W]
  torch::Tensor labels;  ///< int64 [N]
};

}  // namespace trainyard::data

#pragma once

#include <cstdint>

#include "worker/data/idx.hpp"

namespace trainyard::data {

/// `samples` made-up images (uint8 [N, 1, 28, 28]) of 10 classes that a model can learn to tell apart: each class has a
/// pattern of its own under noise. The patterns depend on `seed` alone, the noise and the labels on `seed` and `part`,
/// so that "train" (0) and "validation" (1) are different samples of the same task. Equal arguments give equal bytes on
/// every machine.
[[nodiscard]] LabeledImages make_synthetic_images(std::int64_t samples, std::int64_t seed, std::int64_t part);

}  // namespace trainyard::data

#pragma once

#include <cstdint>

#include "worker/data/idx.hpp"

namespace trainyard::data {

/// `samples` random images (uint8 [N, 1, 28, 28]) of 10 classes that a model can learn: each class has its own pattern
/// under noise. The patterns depend on `seed` alone; noise and labels depend on `seed` and `part`, so that training
/// (part 0) and validation (part 1) are different samples of one task. Equal arguments give equal bytes on every
/// machine.
[[nodiscard]] LabeledImages make_synthetic_images(std::int64_t samples, std::int64_t seed, std::int64_t part);

}  // namespace trainyard::data

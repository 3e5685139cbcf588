#pragma once

#include <cstdint>
#include <memory>

#include "include/trainyard/data.hpp"
#include "worker/data/labeled_images.hpp"

namespace trainyard::data {

struct SyntheticImages {
  std::int64_t channels = 1;
  std::int64_t size = 28;  ///< Height and width.
  std::int64_t classes = 10;
};

/// The options channels, size and classes. Throws InvalidJob.
[[nodiscard]] SyntheticImages read_synthetic_images(const Options& options);

/// `samples` random images (uint8 [N, channels, size, size]) of classes that a model can learn: each class has its own
/// pattern under noise. The patterns depend on `seed` alone; noise and labels depend on `seed` and `part`, so that
/// training and validation are different samples of one task. Equal arguments give equal bytes on every machine.
/// Throws InvalidJob for images of more than 8 GiB together, which are kept in memory.
[[nodiscard]] LabeledImages make_synthetic_images(std::int64_t samples, std::int64_t seed, Part part,
                                                  const SyntheticImages& images = {});

/// True when the job asks for synthetic tokens: it gives sequenceLength.
[[nodiscard]] bool asks_for_tokens(const Options& options);

/// `source.samples` random sequences with targets one token later, on `source.device`; by the options sequenceLength
/// and vocabulary. A model can learn them: each token is followed by one of two others. Equal sources give equal tokens
/// on every machine. Throws InvalidJob for a wrong option, and for tokens of more than 8 GiB together.
[[nodiscard]] std::unique_ptr<Dataset> make_synthetic_tokens(const DataSource& source, std::int64_t samples, Part part);

}  // namespace trainyard::data

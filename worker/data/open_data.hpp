#pragma once

#include <memory>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"

namespace trainyard::data {

enum class Part { train, validation };

/// The images and labels of `source`, which has `format`, in memory. IDX: `part` is "train" or "t10k" in the folder;
/// errors of read_labeled_images. Synthetic: `samples` training images, and a sixth as many for validation (at least
/// one).
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_data(const DataSource& source, api::DataFormat format, Part part);

}  // namespace trainyard::data

#pragma once

#include <memory>

#include "common/result.hpp"
#include "worker/data/data_source.hpp"
#include "worker/data/dataset.hpp"

namespace trainyard::data {

enum class Part { train, validation };

/// The images and labels of `source`, in memory. IDX: the parts "train" and "t10k" of its folder; errors of
/// read_labeled_images. Synthetic: `samples` of them, of which the validation set has a sixth as many again, at least
/// one.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_data(const DataSource& source, Part part);

}  // namespace trainyard::data

#pragma once

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"

namespace trainyard::data {

/// The training set and the validation set of `source`, which has `format`: docs/data.md describes each format and its
/// options. Errors name the file. Throws InvalidJob for a wrong option; the caller checks that all options were asked
/// for.
[[nodiscard]] Result<Datasets> open_data(const DataSource& source, api::DataFormat format);

}  // namespace trainyard::data

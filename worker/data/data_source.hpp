#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "api/training_spec.hpp"

namespace trainyard {

/// The source of training data, once its files are on this machine.
struct DataSource {
  api::DataSpec spec;
  std::string folder;  ///< spec.path, or the folder to which spec.uri was fetched. Empty for synthetic data.
  std::int64_t seed = 0;
  torch::Device device = torch::kCPU;  ///< The rank's device.
};

}  // namespace trainyard

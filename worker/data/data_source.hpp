#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "api/training_spec.hpp"

namespace trainyard {

/// Where training data comes from, once it is on this machine.
struct DataSource {
  api::DataSpec spec;
  std::string folder;  ///< Of `path`, or where `uri` was fetched to. Empty for synthetic data.
  std::int64_t seed = 0;
  torch::Device device = torch::kCPU;  ///< Where batches are to be.
};

}  // namespace trainyard

#pragma once

#include <torch/types.h>

#include <string>

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "worker/train/job.hpp"

namespace trainyard::train {

/// The data sets of `job`, opened by `module` or, where it opens none, by the format, from the files in `folder`.
/// ErrorKind::invalid when there are no samples for the job's task, or more classes than the module tells apart. Throws
/// what the module throws, and InvalidJob for an option that nothing asks for.
[[nodiscard]] Result<Datasets> open_datasets(Module& module, const Job& job, const std::string& folder,
                                             torch::Device device);

}  // namespace trainyard::train

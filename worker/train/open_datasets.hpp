#pragma once

#include <torch/types.h>

#include <string>

#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "storage/store.hpp"
#include "worker/data/sampling.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/train/job.hpp"

namespace trainyard::train {

/// invalid: a data set has more classes than the model tells apart. Nothing is checked where one of them does not say.
[[nodiscard]] Result<void> check_classes(const Module& module, const Datasets& datasets);

/// The S3 settings for data and weights, which are only read.
[[nodiscard]] storage::S3Options read_options(const Job& job);

/// The folder with the files of training.data, which are fetched first where the job gives a URI. A storage that does
/// not answer is asked again for as long as `patience` says. Ends the process when it is asked to stop meanwhile.
/// Errors: those of open_store() and data::fetch().
[[nodiscard]] Result<std::string> find_data(const Job& job, rank::RankLink& link, const Clock& clock,
                                            const checkpoint::StartPatience& patience);

/// The data sets of `job`, opened by `module` or, where it opens none, by the format, from the files in `folder`.
/// ErrorKind::invalid when there are no samples for the job's task, or more classes than the module tells apart, and
/// for a sampler of no samples; also for a training set without a size beside another or a sampler, or where the job
/// needs to know its last step. Throws what the module throws, and InvalidJob for an option that nothing asks for.
[[nodiscard]] Result<Datasets> open_datasets(Module& module, const Job& job, const std::string& folder,
                                             torch::Device device, const data::GroupRank& self);

}  // namespace trainyard::train

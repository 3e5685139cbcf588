#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"

namespace trainyard::train {

/// A data set's own words on itself.
struct DataSummary {
  std::int64_t samples = 0;
  std::int64_t classes = 0;  ///< 0: it does not say.
  std::string id;            ///< Empty: it does not say.
  /// Of a training set without a size: IterableDataset::is_interleaved().
  std::optional<bool> is_interleaved{};

  friend bool operator==(const DataSummary&, const DataSummary&) = default;
};

/// The data sets of one rank.
struct RankData {
  DataSummary train;
  std::optional<DataSummary> validation;
  std::optional<DataSummary> test{};
  std::optional<std::int64_t> sampler_samples{};  ///< Sampler::size().

  friend bool operator==(const RankData&, const RankData&) = default;
};

/// The samples of each rank's order, by rank, if `joins`, as strategy.join says, and the training set has a size; else
/// nothing.
///
/// Errors: io: a rank of `ranks` has other data than rank 0. A restart on other nodes may help. The message names the
/// first such rank and both summaries. invalid: the data is equal, and samplers have other sizes, which without `joins`
/// is the program's fault; the message names the ranks. Pure.
[[nodiscard]] Result<std::vector<std::int64_t>> compare_data(std::span<const RankData> ranks, bool joins);

/// compare_data() of all ranks' data sets. It is collective, and its outcome is equal on all ranks. cancelled: a rank
/// is lost. Each rank draws its samples by their numbers: with other data it would train on other samples than its part
/// of the epoch, with other labels, or for another number of steps than its peers, which would wait for it.
[[nodiscard]] Result<std::vector<std::int64_t>> agree_on_data(const Datasets& datasets, bool joins,
                                                              checkpoint::Communicator& communicator);

}  // namespace trainyard::train

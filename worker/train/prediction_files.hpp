#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "storage/store.hpp"

namespace trainyard::train {

/// The folder of the predictions, in the place of log files.
inline constexpr std::string_view predictions_folder = "predictions/";
/// The last object of a prediction: without it the files are not whole. It lists them.
inline constexpr std::string_view predictions_index = "predictions/index.json";

struct PredictionFile {
  std::string key;
  std::int64_t samples = 0;
  bool operator==(const PredictionFile&) const = default;
};

/// Writes one rank's predictions into safetensors files: each has the samples' numbers as "ids", and a row for each
/// sample in every other tensor. A file is stored whole or not at all, and another run of equally many ranks replaces
/// it. Used from one thread.
class PredictionFiles {
 public:
  struct Options {
    std::int64_t rank = 0;
    std::int64_t world_size = 1;
    std::uint64_t file_bytes_max = std::uint64_t{64} << 20;  ///< A file ends with the batch that reaches this size.
  };

  /// `store` outlives the object.
  PredictionFiles(storage::Store& store, const Options& options) : store_{store}, options_{options} {}

  /// Adds the predictions for `batch`. Waits for the device. Throws InvalidJob for no tensor, for one without a row for
  /// each sample or named "ids", and for names, dtypes or shapes of rows that differ from those of the batch before.
  /// Errors: the storage's.
  [[nodiscard]] Result<void> add(const Batch& batch, const std::map<std::string, torch::Tensor>& values);
  /// Stores what is not stored yet.
  [[nodiscard]] Result<void> finish();
  [[nodiscard]] const std::vector<PredictionFile>& files() const { return files_; }

 private:
  storage::Store& store_;
  Options options_;
  std::map<std::string, std::vector<torch::Tensor>> rows_;  // on the host, with "ids"; not stored yet
  std::map<std::string, torch::Tensor> first_;              // of the first batch, without rows
  std::uint64_t bytes_ = 0;                                 // of rows_
  std::vector<PredictionFile> files_;
};

}  // namespace trainyard::train

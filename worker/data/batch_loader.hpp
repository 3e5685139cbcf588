#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "common/ordered_tasks.hpp"
#include "include/trainyard/data.hpp"

namespace trainyard::data {

/// One batch that is to be gathered.
struct BatchRequest {
  torch::Tensor ids;       ///< int64 [B], on the CPU.
  std::int64_t epoch = 0;  ///< Epoch of the training, from 0.
};

struct BatchLoaderOptions {
  /// 0: each batch is gathered by the thread that calls next(), when it is due. Otherwise so many threads gather ahead,
  /// and at most one batch more than there are threads is gathered and not used.
  std::int64_t threads = 0;
  torch::Device device = torch::kCPU;  ///< To which the batches are moved.
  std::int64_t classes = 0;            ///< Number of the data set's classes (Dataset::classes).
};

/// `batch` of the program, ready to be copied to the device of `options`: in pinned memory, if that is a GPU. Throws
/// InvalidJob when its inputs are not one row for each id, with the words `giver` for what gave them, or when a
/// sample's only target, on the CPU, is beyond the data set's classes.
[[nodiscard]] Batch prepared(Batch batch, std::string_view giver, const BatchLoaderOptions& options);

/// Loads batches in order, ahead of their use where it has threads. One thread calls. The destructor waits for the
/// batches that are being gathered, so that a rank whose gather() is stuck falls silent and is named as the one that
/// hangs. A rank's process ends without destroying the loader of its training.
class BatchLoader {
 public:
  /// The next batch's request; nothing after the last. Called by the thread that calls next(), ahead of their use.
  using Requests = std::function<std::optional<BatchRequest>()>;
  /// Called by the loader's threads, several at once.
  using Gather = std::function<Batch(const BatchRequest& request)>;

  BatchLoader(Requests requests, Gather gather, const BatchLoaderOptions& options);

  /// The next batch, on the device, with the request's ids. There must be one. Its copy to the device is queued on the
  /// current stream and not waited for. Throws what gathering threw, and InvalidJob as prepared().
  [[nodiscard]] Batch next();

 private:
  void read_ahead();

  Requests requests_;
  Gather gather_;
  BatchLoaderOptions options_;
  std::optional<OrderedTasks<Batch>> tasks_;  // nothing without threads
};

}  // namespace trainyard::data

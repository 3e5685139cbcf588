#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/ordered_tasks.hpp"
#include "include/trainyard/data.hpp"
#include "worker/data/batch_loader.hpp"

namespace trainyard::data {

/// Reads the batches of one stream, ahead of their use where `options` has a thread. One thread calls. The destructor
/// waits for the batch that is being read, as that of BatchLoader does.
class StreamLoader {
 public:
  /// `options.threads`: 0 or 1.
  StreamLoader(std::unique_ptr<SampleStream> stream, std::int64_t batch_size, const BatchLoaderOptions& options);

  /// Passes over the next `samples` samples, or over all that there are. To be called before next(). `beat` is called
  /// after each batch that is read and dropped. Throws as next().
  void skip(std::int64_t samples, const std::function<void()>& beat);
  /// The next batch, on the host; one of no samples after the last. Throws what the stream throws, and InvalidJob for a
  /// batch that is larger than was asked for, or whose samples have no number, and as prepared().
  [[nodiscard]] Batch next();

 private:
  [[nodiscard]] Batch read(std::int64_t count);

  std::unique_ptr<SampleStream> stream_;
  std::int64_t batch_size_;
  BatchLoaderOptions options_;
  // With a thread, only its tasks use these two once next() has been called, one after another:
  std::int64_t taken_ = 0;  // samples read or passed over
  bool is_over_ = false;
  std::optional<OrderedTasks<Batch>> tasks_;  // nothing without a thread
};

}  // namespace trainyard::data

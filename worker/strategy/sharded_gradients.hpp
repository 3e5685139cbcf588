#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "common/result.hpp"
#include "include/trainyard/optimizer.hpp"
#include "worker/strategy/bucket_assignment.hpp"
#include "worker/strategy/gradient_hooks.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/row_exchange.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// Gives each rank the mean gradients of its rows of the parameters, while a backward pass computes gradients, and then
/// all ranks the rows that the others have changed. A bucket is sent as in GradientBuckets: once all of its parameters
/// have their gradients and all earlier buckets are sent. One bucket is under way at a time, and the next one waits for
/// it, so that a rank has the memory of few buckets. Called from the same threads as GradientBuckets.
class ShardedGradients {
 public:
  struct Options {
    BucketLimits limits;
    WaitForWork wait;
    WaitForWork follow;  ///< For the collectives of usual steps.
    /// All buckets are sent by finish(): see GradientBuckets::send_at_end().
    bool sends_at_end = false;
    /// The rows of shards() have memory of their own, and send_up_to() and finish() send the buckets.
    bool has_own_rows = false;
  };

  /// `parameters`: as for GradientBuckets. Throws InvalidJob for a parameter whose rows have gaps in memory.
  ShardedGradients(const NamedTensors& parameters, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                   Options options);

  /// The rows of this rank, by parameter.
  [[nodiscard]] const std::vector<ParameterShard>& shards() const { return shards_; }
  /// Clears the last step's gradients.
  void zero();
  /// As GradientBuckets::begin_backward().
  void begin_backward(bool is_last_batch) { is_last_batch_ = is_last_batch; }
  /// After success the rows of shards() have the mean of their gradients over the ranks, or none where no rank's loss
  /// used the parameter. No parameter has a gradient any more. Errors and exceptions: those of
  /// GradientBuckets::finish().
  [[nodiscard]] Result<void> finish();
  /// Gives all ranks the rows of all ranks. To be called after the rows were changed. Not with has_own_rows.
  [[nodiscard]] Result<void> gather();

  /// With has_own_rows, while a backward pass runs: how many buckets, from the first on, are full or sent.
  [[nodiscard]] std::size_t full_buckets() const;
  /// Sends those of the first `count` buckets that are not sent yet. `count` is equal on all ranks, and at most the
  /// full_buckets() of each. finish() returns the failure of a send.
  void send_up_to(std::size_t count);
  /// The indices of the parameters of each bucket.
  [[nodiscard]] std::vector<BucketIndices> buckets() const;
  /// The rows of each rank, by parameter.
  [[nodiscard]] const std::vector<std::vector<RowRange>>& rows_of_ranks() const { return rows_; }

  [[nodiscard]] std::int64_t largest_bucket_bytes() const;
  [[nodiscard]] std::uint64_t exchanged_bytes() const;

 private:
  struct Bucket {
    BucketIndices parameters;
    std::vector<torch::Tensor> whole;     // its parameters, without history
    std::vector<torch::Tensor> own_rows;  // this rank's rows of them
    RowExchange exchange;
    std::size_t ready_count = 0;  // parameters that have their gradient in this step
  };

  void take_gradient(std::size_t parameter);
  void send_full_buckets();
  /// Waits for the bucket under way, and takes its gradients.
  [[nodiscard]] Result<void> complete();
  /// Makes `exchange`, and keeps its failure for finish() and gather().
  void attempt(const std::function<Result<void>()>& exchange);
  [[nodiscard]] bool has_failed() const { return error_.has_value() || own_failure_ != nullptr; }
  [[nodiscard]] Result<void> kept_failure() const;

  std::vector<torch::Tensor> parameters_;
  Options options_;
  double scale_;
  std::vector<std::vector<RowRange>> rows_;
  std::vector<ParameterShard> shards_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<bool> is_ready_;          // by parameter, in this step
  bool is_last_batch_ = true;
  std::size_t next_bucket_ = 0;             // the first that is not sent
  std::optional<std::size_t> sent_bucket_;  // the one under way
  c10::intrusive_ptr<c10d::Work> work_;     // of sent_bucket_
  std::optional<Error> error_;              // after it nothing is sent
  std::exception_ptr own_failure_;          // of this rank's device or program
  std::optional<GradientHooks> hooks_;      // last: they call this object
};

}  // namespace trainyard::strategy

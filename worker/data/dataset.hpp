#pragma once

#include <torch/types.h>

#include <cstdint>

namespace trainyard {

/// What one step of one rank works on. All tensors have the batch as their first dimension and are on the rank's
/// device.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;
  torch::Tensor ids;  ///< int64 [B]: the samples' places in the data set. On the CPU.

  [[nodiscard]] std::int64_t size() const { return ids.size(0); }
};

/// Samples that are found by number. One thread calls at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The samples `ids` (int64 [B] on the CPU, each in [0, size())), in that order. May throw: the rank then fails with
  /// what() as its message.
  [[nodiscard]] virtual Batch gather(const torch::Tensor& ids) const = 0;
};

}  // namespace trainyard

#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace trainyard {

/// The samples of one step on one rank. The first dimension of each tensor is the batch. A module gets inputs and
/// targets on the rank's device.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;  ///< May be undefined.
  torch::Tensor ids;      ///< int64 [B]: the samples' numbers in the data set. On the CPU.

  [[nodiscard]] std::int64_t size() const { return ids.size(0); }
  /// The batch with inputs and targets on `device`. A tensor that is there already is not copied.
  [[nodiscard]] Batch on(torch::Device device) const;
};

/// Samples with numbers. One thread calls at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The samples `ids`, in that order, on any device: the trainer moves them to the rank's. ids: int64 [B] on the CPU,
  /// each in [0, size()). May throw: the rank then fails with what() as its message.
  [[nodiscard]] virtual Batch gather(const torch::Tensor& ids) const = 0;
  /// Identifies these samples among data sets of equal size: a name, a URI, a version. The fingerprint of checkpoints
  /// contains it, so that it must be equal at each start, on every machine and device. When it is empty, the
  /// fingerprint contains the job's training.data instead.
  [[nodiscard]] virtual std::string id() const { return {}; }
};

}  // namespace trainyard

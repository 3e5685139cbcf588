#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace trainyard {

/// What one step of one rank works on. All tensors have the batch as their first dimension. A module gets inputs and
/// targets on the rank's device.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;  ///< May be undefined.
  torch::Tensor ids;      ///< int64 [B]: the samples' places in the data set. On the CPU.

  [[nodiscard]] std::int64_t size() const { return ids.size(0); }
  /// The batch with inputs and targets on `device`; those that are there already are not copied.
  [[nodiscard]] Batch on(torch::Device device) const;
};

/// Samples that are found by number. One thread calls at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The samples `ids` (int64 [B] on the CPU, each in [0, size())), in that order, on any device: the trainer moves
  /// them to the rank's. May throw: the rank then fails with what() as its message.
  [[nodiscard]] virtual Batch gather(const torch::Tensor& ids) const = 0;
  /// Identifies these samples among data sets of the same size: a name, a URI, a version. With the model it decides
  /// whether a run may go on from another job's checkpoint, so it must be the same at each start, on every machine and
  /// device. Empty: the job's training.data is used instead.
  [[nodiscard]] virtual std::string id() const { return {}; }
};

}  // namespace trainyard

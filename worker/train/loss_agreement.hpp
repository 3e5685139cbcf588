#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::train {

/// A loss that is not finite.
struct BadLoss {
  std::int64_t rank = 0;
  double loss = 0.0;
  std::string turn{};  ///< The optimizer in whose turn it came; empty where there is only one.
};

/// Gives every rank the losses of all ranks: eight bytes for each rank, sent while the backward pass runs. Used from
/// the training thread.
class LossAgreement {
 public:
  LossAgreement(c10::intrusive_ptr<c10d::ProcessGroup> process_group, strategy::WaitForWork wait, torch::Device device);

  /// Sends this rank's loss, a scalar. To be called before the backward pass.
  void begin(const torch::Tensor& loss);
  /// Waits for the losses of all ranks. Errors: those of `wait`; unavailable when the loss could not be sent. Throws
  /// what this rank's own device threw while the loss was sent.
  [[nodiscard]] Result<void> finish();

  /// After finish(): float scalar on the device, 1 when the loss of any rank is not finite, else 0.
  [[nodiscard]] torch::Tensor found_bad() const;
  /// After finish(): the first rank whose loss is not finite. Waits for the device.
  [[nodiscard]] std::optional<BadLoss> first_bad() const;

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  strategy::WaitForWork wait_;
  torch::Tensor losses_;  // double [world size], by rank
  c10::intrusive_ptr<c10d::Work> under_way_;
  std::string send_error_;
  std::exception_ptr own_failure_;  // of this rank's device, while the loss was sent
};

}  // namespace trainyard::train

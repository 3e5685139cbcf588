#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "common/result.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::train {

/// What every rank must know after the same step, as it was on any rank when the step began.
struct StepFlags {
  bool is_stop_asked = false;
  bool is_checkpoint_due = false;    ///< By rank 0's clock.
  bool is_copy_due = false;          ///< On the nodes, by rank 0's clock.
  bool is_checkpoint_asked = false;  ///< Of rank 0, which no save under way will answer.
  /// The save before is still under way. Where it is not, no rank's is at the step's end either: only the training
  /// thread begins saves.
  bool is_saving = false;
  bool operator==(const StepFlags&) const = default;
};

/// Spreads each rank's flags over all: a few bytes that travel while the step computes. Used from the training thread.
class StepAgreement {
 public:
  StepAgreement(c10::intrusive_ptr<c10d::ProcessGroup> process_group, strategy::WaitForWork wait);

  /// Sends this rank's flags. Before the forward pass.
  void begin(const StepFlags& mine);
  /// The flags of all ranks. After the backward pass. Errors of the wait; unavailable when they could not be sent.
  [[nodiscard]] Result<StepFlags> finish();

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  strategy::WaitForWork wait_;
  torch::Tensor flags_;  // int32 [5], on the CPU: reading it never waits for a device
  c10::intrusive_ptr<c10d::Work> under_way_;
  std::string send_error_;
};

}  // namespace trainyard::train

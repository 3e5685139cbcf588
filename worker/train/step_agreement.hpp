#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "common/result.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::train {

/// Flags that all ranks need after a step. A flag is true when it was true on any rank as the step began.
struct StepFlags {
  bool is_stop_asked = false;
  bool is_checkpoint_due = false;    ///< By rank 0's clock.
  bool is_copy_due = false;          ///< A copy on the nodes is due, by rank 0's clock.
  bool is_checkpoint_asked = false;  ///< Rank 0 has a request that no running save will answer.
  /// A save is running. When the flag is false, no rank saves at the step's end either, because only the training
  /// thread begins saves.
  bool is_saving = false;
  bool is_end_asked = false;  ///< A callback asks to end the training.
  bool operator==(const StepFlags&) const = default;
};

/// Exchanges the flags of all ranks: a few bytes, sent while the step computes. Used from the training thread.
class StepAgreement {
 public:
  StepAgreement(c10::intrusive_ptr<c10d::ProcessGroup> process_group, strategy::WaitForWork wait);

  /// Sends this rank's flags. To be called before the forward pass.
  void begin(const StepFlags& mine);
  /// The flags of all ranks. To be called after the backward pass. Errors: those of `wait`; unavailable when the flags
  /// could not be sent.
  [[nodiscard]] Result<StepFlags> finish();

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  strategy::WaitForWork wait_;
  torch::Tensor flags_;  // int32 [6], on the CPU, so that reading never waits for a device
  c10::intrusive_ptr<c10d::Work> under_way_;
  std::string send_error_;
};

}  // namespace trainyard::train

#include "worker/train/step_agreement.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <exception>
#include <utility>
#include <vector>

#include "common/try.hpp"

namespace trainyard::train {

StepAgreement::StepAgreement(c10::intrusive_ptr<c10d::ProcessGroup> process_group, strategy::WaitForWork wait)
    : process_group_{std::move(process_group)}, wait_{std::move(wait)}, flags_{torch::zeros({6}, torch::kInt32)} {}

void StepAgreement::begin(const StepFlags& mine) {
  auto* flags = flags_.data_ptr<std::int32_t>();
  flags[0] = mine.is_stop_asked ? 1 : 0;
  flags[1] = mine.is_checkpoint_due ? 1 : 0;
  flags[2] = mine.is_checkpoint_asked ? 1 : 0;
  flags[3] = mine.is_saving ? 1 : 0;
  flags[4] = mine.is_copy_due ? 1 : 0;
  flags[5] = mine.is_end_asked ? 1 : 0;
  if (process_group_->getSize() == 1) return;
  try {
    std::vector<torch::Tensor> message{flags_};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    under_way_ = process_group_->allreduce(message, options);
  } catch (const std::exception& error) {
    send_error_ = error.what();  // finish() returns it.
  }
}

Result<StepFlags> StepAgreement::finish() {
  if (!send_error_.empty())
    return fail(ErrorKind::unavailable, fmt::format("sending the step's flags: {}", send_error_));
  if (under_way_) {
    TRY(wait_(under_way_, "the step's agreement"));
    under_way_.reset();
  }
  const auto* flags = flags_.data_ptr<std::int32_t>();
  return StepFlags{.is_stop_asked = flags[0] != 0,
                   .is_checkpoint_due = flags[1] != 0,
                   .is_copy_due = flags[4] != 0,
                   .is_checkpoint_asked = flags[2] != 0,
                   .is_saving = flags[3] != 0,
                   .is_end_asked = flags[5] != 0};
}

}  // namespace trainyard::train

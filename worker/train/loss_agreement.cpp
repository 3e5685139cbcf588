#include "worker/train/loss_agreement.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <exception>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::train {

LossAgreement::LossAgreement(c10::intrusive_ptr<c10d::ProcessGroup> process_group, strategy::WaitForWork wait,
                             torch::Device device)
    : process_group_{std::move(process_group)},
      wait_{std::move(wait)},
      losses_{torch::zeros({process_group_->getSize()}, torch::dtype(torch::kDouble).device(device))} {}

void LossAgreement::begin(const torch::Tensor& loss) {
  const torch::NoGradGuard no_grad;
  losses_.zero_();
  losses_[process_group_->getRank()].copy_(loss.reshape({}));
  if (process_group_->getSize() == 1) return;
  try {
    std::vector<torch::Tensor> message{losses_};
    under_way_ = process_group_->allreduce(message);  // A sum with zeros is the loss, also of an infinity or a NaN.
  } catch (const std::exception& error) {
    send_error_ = dist::message_of(error);  // finish() returns it, or throws own_failure_.
    const bool is_own = !losses_.is_cpu() && dist::failed_part(error) != dist::FailedPart::communication;
    if (is_own) own_failure_ = std::current_exception();
  }
}

Result<void> LossAgreement::finish() {
  if (own_failure_) std::rethrow_exception(own_failure_);
  if (!send_error_.empty())
    return fail(ErrorKind::unavailable, fmt::format("sending the step's loss: {}", send_error_));
  if (!under_way_) return {};
  TRY(wait_(under_way_, "the exchange of the losses"));
  under_way_.reset();
  return {};
}

torch::Tensor LossAgreement::found_bad() const {
  return losses_.isfinite().logical_not().any().to(torch::kFloat);
}

std::optional<BadLoss> LossAgreement::first_bad() const {
  const torch::Tensor losses = losses_.cpu();
  const auto values = losses.accessor<double, 1>();
  for (std::int64_t rank = 0; rank < values.size(0); ++rank) {
    if (!std::isfinite(values[rank])) return BadLoss{.rank = rank, .loss = values[rank]};
  }
  return std::nullopt;
}

}  // namespace trainyard::train

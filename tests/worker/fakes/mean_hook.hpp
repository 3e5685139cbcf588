#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <utility>
#include <vector>

namespace trainyard::fakes {

/// The communication hook that users write first: the mean of the gradients over the ranks, added up as `dtype`.
class MeanHook final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  MeanHook(c10::intrusive_ptr<c10d::ProcessGroup> process_group, torch::ScalarType dtype)
      : CppCommHookInterface{std::move(process_group)}, dtype_{dtype} {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<torch::Tensor> message{bucket.getBuffer().to(dtype_)};
    return state_->allreduce(message)->getFuture()->then(
        [gradients = bucket.getBuffer(), ranks = state_->getSize()](c10::ivalue::Future& sum) {
          const torch::Tensor mean = sum.value().toTensorVector().front().to(gradients.scalar_type()) / ranks;
          return c10::IValue{std::vector<torch::Tensor>{mean}};
        },
        c10::ListType::create(c10::TensorType::get()));
  }

 private:
  torch::ScalarType dtype_;
};

}  // namespace trainyard::fakes

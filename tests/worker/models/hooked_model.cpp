// A training program whose model exchanges gradients by a communication hook of its own, or calls a collective on one
// rank alone, for comm_hook_rank_test.
#include <trainyard/trainyard.hpp>

#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Gives zeros of `dtype` in the gradients' place, once all ranks have called.
class ZeroHook final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  ZeroHook(const ProcessGroup& process_group, torch::ScalarType dtype)
      : CppCommHookInterface{process_group}, dtype_{dtype} {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<torch::Tensor> zeros{torch::zeros({bucket.getBuffer().numel()}, dtype_)};
    return state_->allreduce(zeros)->getFuture();
  }

 private:
  torch::ScalarType dtype_;
};

/// Throws.
class BadHook final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& /*bucket*/) override {
    throw std::out_of_range{"level 9 of 4"};
  }
};

/// options.hook: "zeros"; "doubles" for zeros of another dtype than the gradients'; "throws"; "none". Training fails
/// once the weight has changed. options.gathersAlone: rank 0 gathers in its first step, and no other rank does.
class HookedModel final : public trainyard::Module {
 public:
  explicit HookedModel(const trainyard::Options& options)
      : hook_{options.text("hook", "none")},
        gathers_alone_{options.boolean("gathersAlone", false)},
        weight_{register_parameter("weight", torch::ones({3}))} {}

  [[nodiscard]] trainyard::StepOutput training_step(const trainyard::Batch& /*batch*/,
                                                    std::int64_t /*batch_index*/) override {
    if (gathers_alone_ && rank() == 0) std::ignore = all_gather(weight_.detach());
    if (!torch::equal(weight_, torch::ones({3}))) throw std::runtime_error{"the weight has changed"};
    return weight_.sum();
  }
  [[nodiscard]] std::shared_ptr<c10d::CommHookInterface> configure_comm_hook(const ProcessGroup& group) override {
    if (hook_ == "none") return nullptr;
    if (hook_ == "throws") return std::make_shared<BadHook>(group);
    return std::make_shared<ZeroHook>(group, hook_ == "zeros" ? torch::kFloat : torch::kDouble);
  }

 private:
  std::string hook_;
  bool gathers_alone_;
  torch::Tensor weight_;
};

}  // namespace

TRAINYARD_MAIN(HookedModel)

#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/gathered_parameters.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/row_shards.hpp"
#include "worker/strategy/sharded_gradients.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// Data parallel training in which each rank keeps the gradients and the optimizer's state of some rows of each
/// parameter, updates these rows, and gets the other ranks' (Rajbhandari et al. 2020, ZeRO stage 2): after each step,
/// or with options.shards_parameters while operators use them (stage 3). Buffers, batch normalisation and parameters
/// that need no gradient are as with Ddp.
class Sharded final : public GradientSync {
 public:
  /// As Ddp's; `options` have no exchange. Throws InvalidJob for a parameter that cannot be cut.
  Sharded(NamedTensors parameters, NamedTensors buffers, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
          checkpoint::Communicator& communicator, WaitForWork wait, const DdpOptions& options = {});

  [[nodiscard]] Result<void> synchronize_model() override;
  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override;
  void zero_gradients() override;
  void begin_forward() override;
  void end_forward() override;
  void begin_backward(bool is_last_batch) override;
  void end_backward() override;
  [[nodiscard]] Result<void> finish_gradients() override;
  [[nodiscard]] Result<void> after_update() override;
  [[nodiscard]] const std::vector<ParameterShard>& shards() const override { return gradients_.shards(); }
  [[nodiscard]] Result<torch::Tensor> norm_of_all_gradients(const torch::Tensor& norm) override;
  [[nodiscard]] Result<void> max_over_ranks(const torch::Tensor& value) override;
  [[nodiscard]] Result<void> read_parameters(const std::function<void()>& read) override;
  [[nodiscard]] bool has_parameters_in_parts() const override { return gathered_.has_value(); }
  [[nodiscard]] Result<void> make_parameters_whole() override;
  [[nodiscard]] NamedTensors state() const override { return ddp_.state(); }
  void before_save() override { ddp_.before_save(); }
  [[nodiscard]] Result<void> after_restore() override { return ddp_.after_restore(); }
  [[nodiscard]] std::uint64_t exchanged_bytes() const override;

  /// The memory of this rank with `optimizer`, which adapt() has returned, in steps of one batch: those of several add
  /// all gradients up before they send them.
  [[nodiscard]] ShardedMemory memory(Optimizer& optimizer) const;

 private:
  void begin_pass(Pass pass);
  void end_pass();
  void log_memory(Optimizer& optimizer) const;
  [[nodiscard]] Result<void> reduce(const torch::Tensor& value, c10d::ReduceOp::RedOpType operation);

  torch::Device device_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  WaitForWork follow_;
  Ddp ddp_;  // all but the gradients
  ShardedGradients gradients_;
  std::optional<GatheredParameters> gathered_;  // with shards_parameters
  std::optional<Error> pass_error_;             // of a pass that has ended; finish_gradients() returns it
  std::exception_ptr own_failure_;              // of this rank's device or program, as there
  int exceptions_before_pass_ = 0;
  std::int64_t parameter_bytes_ = 0;  // of all parameters, also of those that are not trained
  std::int64_t untrained_bytes_ = 0;
  bool keeps_gradients_;
  Optimizer* optimizer_ = nullptr;  // adapt()'s, which the caller keeps alive; null once its memory is logged
};

}  // namespace trainyard::strategy

#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/strategy/bucket_assignment.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// The Adasum of two changes of one tensor: their sum where they are orthogonal, and their mean where they are equal. A
/// change of zeros adds nothing. a, b: of one shape, floating-point. The bits of adasum(b, a) are equal. Source: Maleki
/// et al. 2021, equation 5.
[[nodiscard]] torch::Tensor adasum(const torch::Tensor& a, const torch::Tensor& b);

/// Horovod's Adasum: each rank's optimizer steps by the gradients of its own batches, and after_update() replaces the
/// change of each parameter by the Adasum of all ranks' changes, in pairs of ranks, then of pairs, and so on. All ranks
/// have equal parameters then, and each has its own optimizer state. Buffers, batch normalisation and the exchange of
/// the model are those of a Ddp.
class AdasumSync final : public GradientSync {
 public:
  /// As the constructor of Ddp. `options.limits` are those of the messages; `options.exchange` is not used. The number
  /// of ranks is a power of two: throws InvalidJob for another one, and for complex parameters.
  AdasumSync(NamedTensors parameters, NamedTensors buffers, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
             checkpoint::Communicator& communicator, WaitForWork wait, DdpOptions options);
  ~AdasumSync() override;

  [[nodiscard]] Result<void> synchronize_model() override { return ddp_.synchronize_model(); }
  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override;
  void zero_gradients() override;
  void begin_forward() override { ddp_.begin_forward(); }
  void end_forward() override { ddp_.end_forward(); }
  void begin_backward(bool is_last_batch) override { ddp_.begin_backward(is_last_batch); }
  /// Each rank keeps its own gradients.
  [[nodiscard]] Result<void> finish_gradients() override;
  [[nodiscard]] Result<void> after_update() override;
  [[nodiscard]] bool keeps_optimizer_equal() const override { return false; }
  [[nodiscard]] NamedTensors state() const override;
  void before_save() override;
  [[nodiscard]] Result<void> after_restore() override;
  [[nodiscard]] std::uint64_t exchanged_bytes() const override { return ddp_.exchanged_bytes() + bytes_; }

 private:
  class LocalOptimizer;
  struct Part {  // a parameter in its bucket
    torch::Tensor parameter;
    torch::Tensor start;  // the parameter before the step
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  struct Bucket {
    std::vector<Part> parts;
    torch::Tensor own;    // the changes one after the other, in the type that they are added up in
    torch::Tensor peers;  // those of the rank at the present distance
    c10::intrusive_ptr<c10d::Work> work;
  };

  void add_bucket(const std::vector<torch::Tensor>& parameters, const BucketIndices& indices);
  [[nodiscard]] Result<void> exchange_with_rank_at(std::int64_t distance);
  [[nodiscard]] Result<void> take_from_rank0(const std::vector<torch::Tensor>& tensors);

  std::vector<torch::Tensor> parameters_;  // that need gradients
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  WaitForWork wait_;
  WaitForWork follow_;
  Ddp ddp_;
  std::vector<Bucket> buckets_;
  LocalOptimizer* optimizer_ = nullptr;  // that adapt() gave away
  torch::Tensor is_saved_;               // uint8 [1], on the host: not zero in the state of a rank that was saved
  std::uint64_t bytes_ = 0;
};

}  // namespace trainyard::strategy

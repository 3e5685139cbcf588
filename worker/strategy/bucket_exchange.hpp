#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "include/trainyard/optimizer.hpp"
#include "worker/strategy/model_agreement.hpp"

namespace trainyard::strategy {

/// The gradients of one bucket, one after the other in one tensor. The tensors keep their storage. A bucket is sent
/// once all of its parameters have their gradients and all earlier buckets are sent, or at the step's end
/// (gradient_buckets.hpp).
struct ExchangedBucket {
  struct Part {
    std::size_t parameter = 0;  ///< Its index in the list of parameters.
    torch::Tensor of;           ///< The parameter.
    torch::Tensor gradient;     ///< A view of `flat` with the shape and strides of the parameter.
    torch::Tensor elements;     ///< Its numbers as one dimension, in the order of their addresses.
  };

  torch::Tensor flat;  ///< All gradients, then `used`.
  torch::Tensor used;  ///< One number for each part: above zero after the exchange where any rank used the parameter.
  std::vector<Part> parts;
};

/// Thrown by an exchange for a mistake of code that the program has written, such as its communication hook. It is the
/// program's own end, and not the loss of a peer.
class ProgramFailed final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Combines the gradients of a bucket over the ranks, by one collective or several. The result is the gradients' mean
/// or sum, or what the optimizer that adapt() returns takes in place of gradients. All ranks make the same calls in the
/// same order, from the training thread and, on a GPU, from the thread of the backward pass.
class BucketExchange {
 public:
  /// `process_group` is that of the ranks whose gradients are exchanged.
  explicit BucketExchange(c10::intrusive_ptr<c10d::ProcessGroup> process_group)
      : process_group_{std::move(process_group)} {}
  virtual ~BucketExchange() = default;
  BucketExchange(const BucketExchange&) = delete;
  BucketExchange& operator=(const BucketExchange&) = delete;

  /// GradientSync::adapt(). The exchange may keep a reference to the optimizer, which outlives it.
  [[nodiscard]] virtual std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) { return optimizer; }
  /// The factor by which gradients are multiplied while they are copied into a bucket. It is asked for once a step.
  [[nodiscard]] virtual double factor() const { return 1.0 / world_size(); }
  /// Starts the exchange of a bucket whose gradients are all there, and returns the first collective. In a process
  /// group of one rank it returns nullptr, and the bucket then holds its result. Throws what the collective throws.
  [[nodiscard]] virtual c10::intrusive_ptr<c10d::Work> begin(std::size_t bucket) = 0;
  /// To be called once the current stream is ordered after the last collective of `bucket`. Starts the next one, or
  /// returns nullptr once the bucket holds its result.
  [[nodiscard]] virtual c10::intrusive_ptr<c10d::Work> proceed(std::size_t bucket) = 0;
  /// To be called after the exchange of a step's last bucket.
  virtual void end_step() {}

  /// The state that a resumed run needs to repeat the bits. Each rank has its own.
  [[nodiscard]] virtual NamedTensors state() const { return {}; }
  /// Those tensors of state() that all ranks have alike, and that a rank which a checkpoint lacks gets from rank 0.
  [[nodiscard]] virtual std::vector<torch::Tensor> common_state() const { return {}; }

  /// The bytes of all tensors that this rank has given to collectives.
  [[nodiscard]] virtual std::uint64_t exchanged_bytes() const { return exchanged_bytes_; }

 protected:
  /// Sums `tensor` over the ranks, in place. nullptr in a process group of one rank.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> sum(const torch::Tensor& tensor);
  [[nodiscard]] int world_size() const { return process_group_->getSize(); }
  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return process_group_; }
  void count(std::uint64_t bytes) { exchanged_bytes_ += bytes; }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  std::uint64_t exchanged_bytes_ = 0;
};

/// Makes the exchange of a list of buckets.
using MakeExchange = std::function<std::unique_ptr<BucketExchange>(
    std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group)>;

/// One all-reduce of the gradients as they are.
[[nodiscard]] std::unique_ptr<BucketExchange> make_all_reduce(std::vector<ExchangedBucket> buckets,
                                                              c10::intrusive_ptr<c10d::ProcessGroup> process_group);

struct AllReduceOptions {
  /// The type that gradients are rounded to and added up in, as by fp16_compress_hook and bf16_compress_hook of
  /// PyTorch's DDP. Not set: their own.
  std::optional<torch::ScalarType> dtype;
  /// Gradients are divided by it before they are added up; the sum is then divided by what is missing to the number of
  /// ranks, as Horovod's gradient_predivide_factor. Not set: all is divided before.
  std::optional<double> predivide_factor;
  bool is_mean = true;  ///< False: the gradients become their sum over the ranks.
};

/// One all-reduce of the gradients.
[[nodiscard]] MakeExchange all_reduce(AllReduceOptions options);

}  // namespace trainyard::strategy

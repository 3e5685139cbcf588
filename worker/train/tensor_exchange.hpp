#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::train {

/// The dtypes, shapes and kinds of device of `tensors`, by which ranks compare what they send, in one line without a
/// line's end: the message of reduced metrics always has one, so that the two are told apart.
[[nodiscard]] std::string describe_tensors(const std::vector<torch::Tensor>& tensors);

/// Throws std::invalid_argument, naming two ranks, unless all `texts` are equal. `ranks`: by the place of a text, the
/// number of the rank in the job that has sent it; empty: its place. `what` names the collective. Pure.
void check_equal_calls(std::span<const std::string> texts, std::span<const std::int64_t> ranks, std::string_view what);

/// Sends tensors among the ranks of a process group. All of them call the same functions in the same order, from the
/// training thread, with tensors of equal shape, dtype and kind of device. `what` names the collective in messages. The
/// results are new tensors, on the devices of the arguments. Each function orders the current stream after the
/// exchange, without waiting for the device, and throws strategy::ExchangeFailed where the exchange fails. Use it
/// without autograd.
class TensorExchange {
 public:
  /// `process_group` undefined: of this rank alone, which exchanges nothing.
  TensorExchange(c10::intrusive_ptr<c10d::ProcessGroup> process_group, strategy::WaitForWork wait)
      : process_group_{std::move(process_group)}, wait_{std::move(wait)} {}

  /// The `text` of each rank. A text of more than 255 bytes comes as its beginning and a hash of the whole.
  [[nodiscard]] std::vector<std::string> gather_texts(std::string_view text, std::string_view what) const;
  /// For each of `tensors` those of all ranks: [ranks, ...].
  [[nodiscard]] std::vector<torch::Tensor> all_gather(const std::vector<torch::Tensor>& tensors,
                                                      std::string_view what) const;
  /// The `tensor` of the rank that has the number `root` in the process group.
  [[nodiscard]] torch::Tensor broadcast(const torch::Tensor& tensor, std::int64_t root, std::string_view what) const;
  /// Reduces the contiguous `message` in place, of a dtype that Gloo reduces.
  void reduce(const torch::Tensor& message, c10d::ReduceOp::RedOpType op, std::string_view what) const;

 private:
  [[nodiscard]] std::int64_t size() const { return process_group_.defined() ? process_group_->getSize() : 1; }
  [[nodiscard]] torch::Tensor gather_bytes(const torch::Tensor& bytes, std::string_view what) const;
  /// Begins a collective of tensors on the CPU or on the device, and waits for it.
  void run(const std::function<c10::intrusive_ptr<c10d::Work>()>& begin, bool is_on_cpu, std::string_view what) const;

  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  strategy::WaitForWork wait_;
};

}  // namespace trainyard::train

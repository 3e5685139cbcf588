#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace trainyard {

/// How ProcessSet::all_reduce() makes one number of those of all members.
enum class ReduceOp { mean, sum, min, max };

/// Some ranks of the job, the members of the set, which communicate among themselves:
///   const ProcessSet& four = process_set("first four");  // a set of configure_process_sets()
///   if (four.includes_this_rank()) mean = four.all_reduce(mean);
/// A whole module: docs/strategies.md, "Process sets".
///
/// All members call the collectives alike, from the thread that calls the module: in one order, also over several sets,
/// with tensors of equal shape, dtype and kind of device. Some ranks have no samples in the last batch of a
/// validation, and others fewer: call in Callback::on_validation_end instead.
class ProcessSet {
 public:
  virtual ~ProcessSet() = default;

  /// The members, by their numbers in the job, ascending.
  [[nodiscard]] virtual const std::vector<std::int64_t>& ranks() const = 0;
  /// How many members there are, at least 1.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual bool includes_this_rank() const = 0;
  /// This rank's number in the set: its place in ranks(), from 0. Throws std::logic_error on a rank outside the set.
  [[nodiscard]] virtual std::int64_t rank() const = 0;

  // Each collective takes dense tensors of any strides, also without elements, and returns a new tensor on the device
  // of its argument, without autograd history. A call waits for the other members to call, but not for the device. A
  // set of one rank communicates nothing.
  //
  // Each collective throws std::logic_error on a rank outside the set, and std::invalid_argument for a tensor that is
  // undefined or not dense, and, naming two ranks, for calls or tensors that differ. A member that is lost, or does not
  // call, ends the attempt as with Module::all_gather().

  /// The mean, sum, minimum or maximum over the members, element by element, in the shape and dtype of `tensor`; the
  /// same bits on all members. Floats of 16 and 8 bits are added up as 32-bit floats. Sums of integers that are too
  /// large wrap around. Throws std::invalid_argument for the mean of integers, for mean and sum of bool, for min and
  /// max of complex numbers, for uint64, and for dtypes that are none of these kinds.
  [[nodiscard]] virtual torch::Tensor all_reduce(const torch::Tensor& tensor, ReduceOp op = ReduceOp::mean) const = 0;
  /// The `tensor` of every member, stacked in the order of ranks(): [size, ...].
  [[nodiscard]] virtual torch::Tensor all_gather(const torch::Tensor& tensor) const = 0;
  /// The `tensor` of the member `root_rank`, which is the rank's number in the job and not in the set. Throws
  /// std::invalid_argument for a rank outside the set.
  [[nodiscard]] virtual torch::Tensor broadcast(const torch::Tensor& tensor, std::int64_t root_rank) const = 0;
};

}  // namespace trainyard

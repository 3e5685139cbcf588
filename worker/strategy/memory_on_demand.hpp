#pragma once

#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace trainyard::strategy {

/// Gives tensors their memory when an operator needs it.
class MemoryProvider {
 public:
  virtual ~MemoryProvider() = default;
  /// Gives memory to the tensors of `places`, all that an operator is about to use, of which some have none. They must
  /// have it until the next call. What it throws leaves the operator.
  virtual void provide(const std::vector<std::size_t>& places) = 0;
};

/// The memory of a tensor, which can be taken away and given back. The tensor, its views and what autograd has saved of
/// them stay valid meanwhile; to read them without memory is an error of torch, that their data is not allocated.
class MemoryOnDemand {
 public:
  /// `tensor` has memory of its own, from its storage's begin to its end. `provider` knows the tensor by `place`, and
  /// outlives the object.
  MemoryOnDemand(const torch::Tensor& tensor, MemoryProvider& provider, std::size_t place);
  /// The tensor has no memory afterwards.
  ~MemoryOnDemand();
  MemoryOnDemand(const MemoryOnDemand&) = delete;
  MemoryOnDemand& operator=(const MemoryOnDemand&) = delete;

  [[nodiscard]] bool is_there() const;
  /// Gives the tensor new memory, with any values, unless it has some.
  void give();
  void take_away();

 private:
  struct Slot;
  friend struct OperatorCall;

  [[nodiscard]] c10::DataPtr set(void* data);

  c10::Storage storage_;
  std::shared_ptr<Slot> slot_;
};

/// While asking is on, each operator that the calling thread calls first gets memory from the MemoryProvider of its
/// arguments, and so do those of the backward passes that the thread begins, on whatever thread they run. A function
/// that reads memory by address and is no operator of torch does not ask.
void set_operators_ask(bool is_on);

}  // namespace trainyard::strategy

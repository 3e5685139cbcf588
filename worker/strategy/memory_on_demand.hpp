#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
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
  /// have it until the next call. An exception of provide() leaves the operator.
  virtual void provide(const std::vector<std::size_t>& places) = 0;
};

/// The memory of a tensor, which can be taken away and given back. The tensor, its views and what autograd has saved of
/// them stay valid meanwhile. They must not be read without memory.
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

/// While it lives, each operator that its thread calls asks the MemoryProvider of its arguments, if one of these has no
/// memory. So do the operators of the backward passes that the thread begins, on whatever thread they run. A function
/// that reads memory by address and is no operator of torch does not ask.
class OperatorsAsk {
 public:
  OperatorsAsk();
  ~OperatorsAsk();
  OperatorsAsk(const OperatorsAsk&) = delete;
  OperatorsAsk& operator=(const OperatorsAsk&) = delete;
};

/// While it lives, the operators of its thread do not ask: those that only make views of tensors without memory.
class NoOperatorAsks {
 public:
  NoOperatorAsks();

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace trainyard::strategy

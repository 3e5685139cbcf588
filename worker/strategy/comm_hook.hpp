#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// The exchange by a communication hook, as register_comm_hook() of PyTorch's DDP. The hook gets the gradients of a
/// bucket as the backward pass leaves them, not divided by the number of ranks. Its future has what takes their place,
/// on the same device and of the same dtype and number of elements. begin() throws InvalidJob for a null
/// future, and proceed() for a result of another device, dtype or size. An exception of the hook or in its future is
/// thrown by begin() or proceed(): a lost connection, a failed device and InvalidJob as they are, whatever else as
/// ProgramFailed. A future that has lost its connection fails the wait for it. What the hook sends is not in
/// exchanged_bytes().
[[nodiscard]] MakeExchange by_comm_hook(std::shared_ptr<c10d::CommHookInterface> hook);

}  // namespace trainyard::strategy

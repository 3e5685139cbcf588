#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// The exchange by a communication hook, as register_comm_hook() of PyTorch's DDP. The hook gets the gradients of a
/// bucket as the backward pass leaves them, not divided by the number of ranks. Its future has what takes their place,
/// on the same device and of the same dtype and number of elements. begin() throws what the hook throws, and
/// InvalidJob for a null future. A future with an error fails the wait for it. proceed() throws InvalidJob for a result
/// of another device, dtype or size. What the
/// hook sends is not in exchanged_bytes().
[[nodiscard]] MakeExchange by_comm_hook(std::shared_ptr<c10d::CommHookInterface> hook);

}  // namespace trainyard::strategy

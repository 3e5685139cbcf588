#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// The exchange by a communication hook, as register_comm_hook() of PyTorch's DDP. The hook gets the gradients of a
/// bucket as the backward pass leaves them, not divided by the number of ranks. Its future has what takes their place,
/// on the same device and of the same dtype and number of elements. begin() throws InvalidJob for a null future, and
/// proceed() for a result of another device, dtype or size.
///
/// An exception of the hook, or in its future, becomes ExchangeFailed if it reports a lost connection, by its class or
/// by Gloo's words. A failed device and InvalidJob stay as they are; whatever else becomes ProgramFailed. begin() and
/// proceed() throw it, and the wait for a future on a device. The wait for one on the host fails by a lost connection
/// alone. The bytes that the hook sends are not in exchanged_bytes().
[[nodiscard]] MakeExchange by_comm_hook(std::shared_ptr<c10d::CommHookInterface> hook);

}  // namespace trainyard::strategy

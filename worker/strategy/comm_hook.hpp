#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// Returns the exchange by a communication hook (docs/own-model.md, "A communication hook"). The hook gets gradients
/// that are not divided by the number of ranks. begin() throws InvalidJob for a null future, and proceed() for a result
/// of another device, dtype or size than the gradients. exchanged_bytes() lacks the bytes that the hook sends.
///
/// An exception of the hook, or in its future, becomes ExchangeFailed if it reports a lost connection, and otherwise
/// ProgramFailed; a failed device and InvalidJob stay as they are. begin() and proceed() throw it, and the wait for a
/// future on a device. The wait for one on the host fails by a lost connection alone.
[[nodiscard]] MakeExchange by_comm_hook(std::shared_ptr<c10d::CommHookInterface> hook);

}  // namespace trainyard::strategy

#include "worker/checkpoint/host_state.hpp"

#include <fmt/format.h>

#include <utility>

#include "worker/checkpoint/entry_info.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::checkpoint {

Result<HostState> HostState::copy_of(const State& state) {
  HostState host;
  for (const Entry& entry : state.entries) {
    auto info = info_of(entry);
    if (!info) return tl::unexpected(info.error());
    try {
      // Conjugated and negated views are resolved: their bytes alone would say something else.
      const torch::Tensor tensor =
          entry.tensor.detach().resolve_conj().resolve_neg().to(torch::kCPU, entry.tensor.scalar_type(),
                                                                /*non_blocking=*/false, /*copy=*/true);
      host.tensors_.push_back(tensor.contiguous());
    } catch (const std::exception& error) {
      return fail(ErrorKind::internal, fmt::format("copying {} to the host: {}", entry.name, dist::message_of(error)));
    }
    auto* bytes = static_cast<std::byte*>(host.tensors_.back().data_ptr());
    const auto size = static_cast<std::size_t>(info->bytes);
    host.entries_.push_back({.info = std::move(*info), .bytes = {bytes, size}});
  }
  return host;
}

Result<void> HostState::copy_to(State& state) const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    try {
      state.entries[i].tensor.copy_(tensors_[i]);
    } catch (const std::exception& error) {
      return fail(ErrorKind::internal, fmt::format("restoring {}: {}", state.entries[i].name, dist::message_of(error)));
    }
  }
  return {};
}

}  // namespace trainyard::checkpoint

#include "worker/checkpoint/host_state.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/try.hpp"
#include "worker/checkpoint/entry_info.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::checkpoint {
namespace {

torch::Tensor host_tensor_of(const Entry& entry) {
  const torch::Tensor tensor = entry.tensor.detach();
  if (has_plain_bytes(tensor)) return tensor;
  if (entry.placement != Placement::per_rank)
    return at::empty(tensor.sizes(), at::TensorOptions{tensor.scalar_type()}.device(torch::kCPU));
  // Resolves conjugated and negated views, whose bytes alone are not their values.
  return tensor.resolve_conj().resolve_neg().to(torch::kCPU).contiguous();
}

}  // namespace

Result<HostState> HostState::of(const State& state) {
  HostState host;
  for (const Entry& entry : state.entries) {
    auto described = TRY(describe(entry));
    try {
      host.tensors_.push_back(host_tensor_of(entry));
    } catch (const std::exception& error) {
      return fail(ErrorKind::internal,
                  fmt::format("getting host memory for {}: {}", entry.name, dist::message_of(error)));
    }
    const torch::Tensor& copy = host.tensors_.back();
    described.bytes = {static_cast<std::byte*>(copy.data_ptr()), copy.nbytes()};
    host.entries_.push_back(std::move(described));
  }
  return host;
}

Result<void> HostState::copy_to(State& state) const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].is_alias_of(state.entries[i].tensor)) continue;
    try {
      state.entries[i].tensor.copy_(tensors_[i]);
    } catch (const std::exception& error) {
      return fail(ErrorKind::internal, fmt::format("restoring {}: {}", state.entries[i].name, dist::message_of(error)));
    }
  }
  return {};
}

}  // namespace trainyard::checkpoint

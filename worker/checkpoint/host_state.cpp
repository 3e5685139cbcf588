#include "worker/checkpoint/host_state.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "worker/dist/torch_error.hpp"

namespace trainyard::checkpoint {
namespace {

// torch's own name for a dtype that safetensors does not have.
std::string dtype_name(torch::ScalarType type) {
  static constexpr std::array<std::pair<torch::ScalarType, std::string_view>, 15> names = {
      {{torch::kFloat64, "F64"},
       {torch::kFloat32, "F32"},
       {torch::kFloat16, "F16"},
       {torch::kBFloat16, "BF16"},
       {torch::kFloat8_e5m2, "F8_E5M2"},
       {torch::kFloat8_e4m3fn, "F8_E4M3"},
       {torch::kInt64, "I64"},
       {torch::kInt32, "I32"},
       {torch::kInt16, "I16"},
       {torch::kInt8, "I8"},
       {torch::kUInt64, "U64"},
       {torch::kUInt32, "U32"},
       {torch::kUInt16, "U16"},
       {torch::kUInt8, "U8"},
       {torch::kBool, "BOOL"}}};
  for (const auto& [known, name] : names) {
    if (known == type) return std::string{name};
  }
  return c10::toString(type);
}

HostEntry host_entry_of(const Entry& entry, const torch::Tensor& tensor) {
  const auto bytes = static_cast<std::uint64_t>(tensor.nbytes());
  return {.info = {.name = entry.name,
                   .placement = entry.placement,
                   .dtype = dtype_name(tensor.scalar_type()),
                   .shape = tensor.sizes().vec(),
                   .bytes = bytes},
          .bytes = {static_cast<std::byte*>(tensor.data_ptr()), bytes}};
}

}  // namespace

Result<HostState> HostState::view_of(const State& state) {
  return make(state, false);
}

Result<HostState> HostState::copy_of(const State& state) {
  return make(state, true);
}

Result<HostState> HostState::make(const State& state, bool is_copy) {
  HostState host;
  for (const Entry& entry : state.entries) {
    if (!entry.tensor.defined() || entry.tensor.layout() != torch::kStrided || entry.tensor.is_quantized()) {
      return fail(ErrorKind::invalid, fmt::format("{} cannot be saved: it is no dense tensor", entry.name));
    }
    try {
      // Conjugated and negated views are resolved: their bytes alone would say something else.
      torch::Tensor tensor =
          entry.tensor.detach().resolve_conj().resolve_neg().to(torch::kCPU, entry.tensor.scalar_type(),
                                                                /*non_blocking=*/false, is_copy);
      host.tensors_.push_back(tensor.contiguous());
      host.entries_.push_back(host_entry_of(entry, host.tensors_.back()));
    } catch (const std::exception& error) {
      return fail(ErrorKind::internal, fmt::format("copying {} to the host: {}", entry.name, dist::message_of(error)));
    }
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

#include "worker/checkpoint/host_state.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "common/try.hpp"
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

}  // namespace

Result<HostEntry> describe(const Entry& entry) {
  if (!entry.tensor.defined() || entry.tensor.layout() != torch::kStrided || entry.tensor.is_quantized()) {
    return fail(ErrorKind::invalid, fmt::format("{} cannot be saved: it is no dense tensor", entry.name));
  }
  HostEntry described{.info = {.name = entry.name,
                               .placement = entry.placement,
                               .dtype = dtype_name(entry.tensor.scalar_type()),
                               .shape = entry.tensor.sizes().vec(),
                               .bytes = static_cast<std::uint64_t>(entry.tensor.nbytes())},
                      .bytes = {}};
  if (!entry.shard) return described;
  std::vector<std::int64_t>& shape = described.info.shape;
  if (shape.empty() || (entry.shard->is_of_scalar && shape.size() != 1))
    return fail(ErrorKind::invalid, fmt::format("{} cannot be sharded: it is a scalar", entry.name));
  const auto begin = static_cast<std::uint64_t>(entry.shard->row_begin);
  described.rows = Rows{.begin = begin, .end = begin + static_cast<std::uint64_t>(shape.front())};
  shape.front() = entry.shard->row_count;
  if (entry.shard->is_of_scalar) shape.clear();
  described.info.bytes = static_cast<std::uint64_t>(entry.tensor.element_size());
  for (const std::int64_t extent : shape) described.info.bytes *= static_cast<std::uint64_t>(extent);
  return described;
}

bool has_plain_bytes(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

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

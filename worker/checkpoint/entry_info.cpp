#include "worker/checkpoint/entry_info.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

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

}  // namespace trainyard::checkpoint

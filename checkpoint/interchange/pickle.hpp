#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/interchange/tensor_type.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// A contiguous tensor, whose bytes are record `record` of the archive.
struct PickledTensor {
  std::string_view name;
  Dtype dtype;
  std::span<const std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::size_t record = 0;
};

/// The pickle (protocol 2) of a dict of `tensors`, as torch.save writes it. Uses only opcodes and globals that
/// weights_only=True allows.
[[nodiscard]] std::string pickle_tensors(std::span<const PickledTensor> tensors);

/// A tensor as torch.save describes it: a view of one storage, which several tensors may share.
struct UnpickledTensor {
  std::string name;  ///< The dict's key; the keys of nested dicts are joined by '.'.
  Dtype dtype;
  std::string record;  ///< data/<record> of the archive holds the storage's bytes.
  std::uint64_t storage_bytes = 0;
  std::uint64_t offset = 0;  ///< The first element's place in the storage, in elements.
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< In elements. Every element lies in the storage.
};

/// The tensors and parameters of a dict (nested dicts included) that torch.save has pickled with _rebuild_tensor_v2 or
/// _v3. Calls nothing. ErrorKind::invalid names anything else in the dict; corrupt for damage.
[[nodiscard]] Result<std::vector<UnpickledTensor>> unpickle_tensors(std::string_view pickle);

}  // namespace trainyard::checkpoint

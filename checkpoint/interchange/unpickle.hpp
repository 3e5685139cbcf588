#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/interchange/dtype.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// A tensor as torch.save describes it: a view of one storage, which it may share with others.
struct UnpickledTensor {
  std::string name;  ///< The dict's key; those of nested dicts joined by '.'.
  Dtype dtype;
  std::string record;  ///< The storage's bytes are the archive's data/<record>.
  std::uint64_t storage_bytes = 0;
  std::uint64_t offset = 0;  ///< Of the first element, in elements.
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< In elements. No element lies outside of the storage.
};

/// The tensors of a dict (nested ones included) that torch.save has pickled: tensors of _rebuild_tensor_v2 and _v3, and
/// parameters. Nothing is ever called. ErrorKind::invalid names what else is in it, corrupt for damage.
[[nodiscard]] Result<std::vector<UnpickledTensor>> unpickle_tensors(std::string_view pickle);

}  // namespace trainyard::checkpoint

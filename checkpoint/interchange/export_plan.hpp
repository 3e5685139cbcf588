#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/interchange/dtype.hpp"
#include "checkpoint/interchange/stored_tensor.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

struct ExportChoice {
  bool is_all = false;  ///< Every tensor under its full name; else the model's, without "model." in front.
  std::string prefix;   ///< Of these, only those whose name begins so.
};

/// A tensor as it will stand in the file.
struct ExportedTensor {
  std::string name;
  Dtype dtype;
  StoredTensor stored;

  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return stored.info.shape; }
  [[nodiscard]] std::uint64_t bytes() const { return stored.info.bytes; }
};

/// What is exported, in the order in which the data files hold it: wide elements first, so that all are aligned.
/// ErrorKind::not_found when nothing is chosen, corrupt when the manifest contradicts itself about one of them, invalid
/// for a dtype that is not known here, or two of one name.
[[nodiscard]] Result<std::vector<ExportedTensor>> plan_export(const Manifest& manifest, const ExportChoice& choice);

}  // namespace trainyard::checkpoint

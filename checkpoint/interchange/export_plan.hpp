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
  bool is_all = false;  ///< True: every tensor, under its full name. False: the model's, without "model." in front.
  std::string prefix;   ///< Only the tensors whose exported name begins with it.
};

/// A tensor of the exported file.
struct ExportedTensor {
  std::string name;
  Dtype dtype;
  StoredTensor stored;

  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return stored.info.shape; }
  [[nodiscard]] std::uint64_t bytes() const { return stored.info.bytes; }
};

/// The tensors to export, in the data files' order: wide elements first, so that all are aligned. ErrorKind::not_found
/// when nothing is chosen, corrupt when the manifest contradicts itself about a chosen tensor, invalid for an unknown
/// dtype or two tensors of one name.
[[nodiscard]] Result<std::vector<ExportedTensor>> plan_export(const Manifest& manifest, const ExportChoice& choice);

}  // namespace trainyard::checkpoint

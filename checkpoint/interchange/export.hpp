#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/interchange/data_stream.hpp"
#include "checkpoint/interchange/new_file.hpp"
#include "checkpoint/interchange/stored_tensor.hpp"
#include "checkpoint/interchange/tensor_type.hpp"
#include "common/result.hpp"

/// Writes a checkpoint's tensors as one file that others read without our code. The file is streamed: it takes the
/// memory of the stream's window, whatever the file's size. Errors of the store and the sink; corrupt for a chunk whose
/// checksum does not match, after which the file must not be kept.

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

/// A tensor with numbers that are infinite or NaN.
struct NonFiniteTensor {
  std::string name;
  std::uint64_t count = 0;  ///< How many there are, at least 1. A complex number is two.
  bool operator==(const NonFiniteTensor&) const = default;
};

/// Writes a safetensors file, and returns the tensors that are not finite, in the order of `plan`. Source:
/// https://huggingface.co/docs/safetensors (format). ErrorKind::invalid for a dtype or a name that the format does not
/// allow.
[[nodiscard]] Result<std::vector<NonFiniteTensor>> write_safetensors(DataStream& data, const Manifest& manifest,
                                                                     std::span<const ExportedTensor> plan, Sink& sink);

/// Writes what torch.save writes for a dict of tensors: torch.load(file, weights_only=True, mmap=True) reads it.
/// Returns what write_safetensors() does.
[[nodiscard]] Result<std::vector<NonFiniteTensor>> write_torch(DataStream& data, std::span<const ExportedTensor> plan,
                                                               Sink& sink);

}  // namespace trainyard::checkpoint

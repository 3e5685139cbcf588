#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/interchange/data_stream.hpp"
#include "checkpoint/interchange/export_plan.hpp"
#include "checkpoint/interchange/new_file.hpp"
#include "common/result.hpp"

/// A checkpoint's tensors as one file that others read without any code of ours. Written as a stream: memory is the
/// stream's window, whatever the file's size. Errors: the plan's store's and the sink's; corrupt for a chunk whose
/// checksum does not match, so that the file must not be kept.
namespace trainyard::checkpoint {

/// As https://huggingface.co/docs/safetensors describes. ErrorKind::invalid for a dtype or a name that the format does
/// not have.
[[nodiscard]] Result<void> write_safetensors(DataStream& data, const Manifest& manifest,
                                             std::span<const ExportedTensor> plan, Sink& sink);

/// As torch.save writes a dict of tensors, so that torch.load(file, weights_only=True, mmap=True) reads it.
[[nodiscard]] Result<void> write_torch(DataStream& data, std::span<const ExportedTensor> plan, Sink& sink);

}  // namespace trainyard::checkpoint

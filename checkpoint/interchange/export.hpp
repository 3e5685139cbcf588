#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/interchange/data_stream.hpp"
#include "checkpoint/interchange/export_plan.hpp"
#include "checkpoint/interchange/new_file.hpp"
#include "common/result.hpp"

/// Writes a checkpoint's tensors as one file that others read without our code. The file is streamed: it takes the
/// memory of the stream's window, whatever the file's size. Errors of the store and the sink; corrupt for a chunk whose
/// checksum does not match, after which the file must not be kept.
namespace trainyard::checkpoint {

/// Writes a safetensors file. Source: https://huggingface.co/docs/safetensors (format). ErrorKind::invalid for a dtype
/// or a name that the format does not allow.
[[nodiscard]] Result<void> write_safetensors(DataStream& data, const Manifest& manifest,
                                             std::span<const ExportedTensor> plan, Sink& sink);

/// Writes what torch.save writes for a dict of tensors: torch.load(file, weights_only=True, mmap=True) reads it.
[[nodiscard]] Result<void> write_torch(DataStream& data, std::span<const ExportedTensor> plan, Sink& sink);

}  // namespace trainyard::checkpoint

#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace trainyard::dist {

/// The first line of torch's or Gloo's error text, without the source location at its beginning.
[[nodiscard]] std::string first_line(std::string_view text);
/// The first line of an exception's message, without the stack that torch's own exceptions contain. The line in which
/// NCCL names the call that failed follows it, where there is one.
[[nodiscard]] std::string message_of(const std::exception& error);

/// The part of a rank that an exception of torch shows to have failed. It decides what the rank's end is charged to.
enum class FailedPart {
  program,        ///< The training program: whatever is none of the others.
  device,         ///< The GPU, its links, or its driver. Another node may do better.
  device_memory,  ///< The program asked for more memory than the GPU has.
  communication,  ///< The connection to another rank.
};

/// The part that failed, by `code`, a result of the CUDA runtime (cudaError_t). An illegal address, a failed launch or
/// a device-side assert is the program's, because a kernel causes it far more often than hardware does. Pure.
[[nodiscard]] FailedPart failed_part_of_cuda(std::int32_t code);

/// The part that failed, by `text`, the whole text of an error of torch, of NCCL or of the CUDA driver. Pure.
[[nodiscard]] FailedPart failed_part_of_text(std::string_view text);

/// The part that failed, by the type of `error`, its CUDA result and its text.
[[nodiscard]] FailedPart failed_part(const std::exception& error);

}  // namespace trainyard::dist

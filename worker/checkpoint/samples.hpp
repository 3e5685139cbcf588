#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Samples of a tensor's bytes, to notice a change of the tensor while it is staged. A change of all elements, or of a
/// run of elements longer than a 32nd of the tensor, is always noticed. A change of a share `s` of the lines at random
/// places is missed with a probability of at most (1 - s)^64.
namespace trainyard::checkpoint {

/// The places of the samples. A tensor of up to 4 KiB is one sample. A larger tensor is divided into 64 equal parts
/// (some more if its size is no multiple), and each part gives a line of 64 bytes, at one random place in all parts.
struct SamplePlan {
  std::uint64_t count = 0;
  std::uint64_t line_bytes = 0;
  std::uint64_t first = 0;   ///< Offset of the first line.
  std::uint64_t stride = 0;  ///< Bytes from one line to the next.
  bool operator==(const SamplePlan&) const = default;
};

/// `random` in [0, 1) chooses the place within the parts. The place is a multiple of `element_bytes`, which divides
/// `bytes`. Pure.
[[nodiscard]] SamplePlan plan_samples(std::uint64_t bytes, std::uint64_t element_bytes, double random);

/// The lines, one after the other.
[[nodiscard]] std::vector<std::byte> samples_of(std::span<const std::byte> bytes, const SamplePlan& plan);

/// The samples of a contiguous tensor, taken on its device. The work is queued on the current stream, and not waited
/// for.
[[nodiscard]] torch::Tensor samples_on_device(const torch::Tensor& tensor, const SamplePlan& plan);

}  // namespace trainyard::checkpoint

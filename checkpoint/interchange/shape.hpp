#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace trainyard::checkpoint {

/// torch's limit.
inline constexpr std::size_t dimensions_max = 64;

/// The elements of a tensor of `shape`; nothing if an extent is negative, or the number overflows.
[[nodiscard]] inline std::optional<std::uint64_t> element_count(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) return std::nullopt;
  }
  return count;
}

/// The bytes of a tensor of `shape`; nothing as in element_count().
[[nodiscard]] inline std::optional<std::uint64_t> byte_count(std::span<const std::int64_t> shape,
                                                             std::uint64_t element_bytes) {
  auto count = element_count(shape);
  if (count && __builtin_mul_overflow(*count, element_bytes, &*count)) return std::nullopt;
  return count;
}

}  // namespace trainyard::checkpoint

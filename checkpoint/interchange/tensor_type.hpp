#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trainyard::checkpoint {

/// One element type, with its names in checkpoints, safetensors and Python.
struct Dtype {
  std::string_view name;  ///< The manifest's name: safetensors' for the older types, else torch's.
  std::uint64_t element_bytes = 0;
  std::string_view safetensors;  ///< Empty: safetensors does not have it.
  std::string_view torch;        ///< torch.<this>
  std::string_view storage;      ///< torch.<this>: the class of its storages; empty for newer types, which have none.
};

/// Finds by the manifest's name. Nothing for an unknown type.
[[nodiscard]] std::optional<Dtype> find_dtype(std::string_view name);
/// Finds by safetensors' name ("C64").
[[nodiscard]] std::optional<Dtype> find_safetensors_dtype(std::string_view name);
/// Finds by Python's name, without "torch." in front.
[[nodiscard]] std::optional<Dtype> find_torch_dtype(std::string_view name);
/// Finds by the name of the storages' class, without "torch." in front.
[[nodiscard]] std::optional<Dtype> find_storage_dtype(std::string_view name);

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

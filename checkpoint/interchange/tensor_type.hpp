#pragma once

#include <cstdint>
#include <optional>
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

}  // namespace trainyard::checkpoint

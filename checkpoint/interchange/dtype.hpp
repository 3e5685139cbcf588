#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trainyard::checkpoint {

/// One element type under the names that a checkpoint, safetensors and Python know it by.
struct Dtype {
  std::string_view name;  ///< In the manifest: safetensors' where it is old enough, else torch's.
  std::uint64_t element_bytes = 0;
  std::string_view safetensors;  ///< Empty: the format does not have it.
  std::string_view torch;        ///< torch.<this>
  std::string_view storage;  ///< torch.<this>: the class of its storages; empty for the newer types, which have none.
};

/// By the manifest's name. Nothing for a type that is not known here.
[[nodiscard]] std::optional<Dtype> find_dtype(std::string_view name);
/// By safetensors' name ("C64").
[[nodiscard]] std::optional<Dtype> find_safetensors_dtype(std::string_view name);
/// By Python's name, without "torch." in front.
[[nodiscard]] std::optional<Dtype> find_torch_dtype(std::string_view name);
/// By the name of its storages' class, without "torch." in front.
[[nodiscard]] std::optional<Dtype> find_storage_dtype(std::string_view name);

}  // namespace trainyard::checkpoint

#pragma once

#include <string_view>

/// The ids by which checkpoints are asked for: POST /checkpoint's, the annotation's and the command line's.
namespace trainyard::contract {

/// Whether `c` may stand in an id.
[[nodiscard]] bool is_request_id_character(char c);

/// Whether `id` matches checkpoint_request_id_pattern.
[[nodiscard]] bool is_request_id(std::string_view id);

}  // namespace trainyard::contract

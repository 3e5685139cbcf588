#pragma once

#include <string_view>

/// Ids of requests for a checkpoint: in POST /checkpoint, in the annotation and on the command line.
namespace trainyard::contract {

/// True when `c` may be part of an id.
[[nodiscard]] bool is_request_id_character(char c);

/// True when `id` matches checkpoint_request_id_pattern.
[[nodiscard]] bool is_request_id(std::string_view id);

}  // namespace trainyard::contract

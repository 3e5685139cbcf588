#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/text.hpp"

namespace trainyard::api {

/// `value` as JSON text for an error message, cut after 80 bytes: a value in a user's file may be long.
[[nodiscard]] inline std::string shown(const nlohmann::json& value) {
  constexpr std::size_t bytes_max = 80;
  return keep_beginning(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), bytes_max);
}

}  // namespace trainyard::api

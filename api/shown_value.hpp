#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::api {

/// `value` as JSON text for an error message, cut after 80 bytes: a value in a user's file may be long.
[[nodiscard]] inline std::string shown(const nlohmann::json& value) {
  constexpr std::size_t bytes_max = 80;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= bytes_max ? text : text.substr(0, bytes_max) + "...";
}

}  // namespace trainyard::api

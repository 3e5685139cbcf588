#include "api/request.hpp"

#include <algorithm>

#include "api/contract.hpp"

namespace trainyard::contract {

bool is_request_id_character(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool is_request_id(std::string_view id) {
  return !id.empty() && id.size() <= checkpoint_request_id_bytes_max &&
         std::ranges::all_of(id, is_request_id_character);
}

}  // namespace trainyard::contract

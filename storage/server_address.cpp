#include "storage/server_address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace trainyard::storage {

Result<ServerAddress> parse_server_address(std::string_view name, std::string_view text) {
  ServerAddress address{.scheme = "http", .authority = {}, .path = {}};
  if (const std::size_t mark = text.find("://"); mark != std::string_view::npos) {
    address.scheme = text.substr(0, mark);
    text.remove_prefix(mark + 3);
  }
  const std::size_t slash = std::min(text.find('/'), text.size());
  address.authority = text.substr(0, slash);
  text.remove_prefix(slash);
  while (text.starts_with('/')) text.remove_prefix(1);
  while (text.ends_with('/')) text.remove_suffix(1);
  address.path = text;
  const auto is_plain = [](std::string_view part) {
    return std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '.' || c == ':' || c == '[' || c == ']' || c == '_' || c == '/';
    });
  };
  const bool is_known = address.scheme == "http" || address.scheme == "https";
  if (!is_known || address.authority.empty() || !is_plain(address.authority) || !is_plain(address.path)) {
    return fail(ErrorKind::invalid, fmt::format("{} is no address: write http://host:port or https://host", name));
  }
  return address;
}

}  // namespace trainyard::storage

#include "storage/arrow/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace trainyard::storage {

Result<Endpoint> parse_endpoint(std::string_view name, std::string_view text) {
  Endpoint endpoint{.scheme = "http", .authority = {}, .path = {}};
  if (const std::size_t mark = text.find("://"); mark != std::string_view::npos) {
    endpoint.scheme = text.substr(0, mark);
    text.remove_prefix(mark + 3);
  }
  const std::size_t slash = std::min(text.find('/'), text.size());
  endpoint.authority = text.substr(0, slash);
  text.remove_prefix(slash);
  while (text.starts_with('/')) text.remove_prefix(1);
  while (text.ends_with('/')) text.remove_suffix(1);
  endpoint.path = text;
  const auto is_plain = [](std::string_view part) {
    return std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '.' || c == ':' || c == '[' || c == ']' || c == '_' || c == '/';
    });
  };
  const bool is_known = endpoint.scheme == "http" || endpoint.scheme == "https";
  if (!is_known || endpoint.authority.empty() || !is_plain(endpoint.authority) || !is_plain(endpoint.path)) {
    return fail(ErrorKind::invalid, fmt::format("{} is no address: write http://host:port or https://host", name));
  }
  return endpoint;
}

}  // namespace trainyard::storage

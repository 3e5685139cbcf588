#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

/// Where a server is: "http://127.0.0.1:10000/account" in its parts.
struct ServerAddress {
  std::string scheme;     ///< "http" or "https".
  std::string authority;  ///< "host" or "host:port".
  std::string path;       ///< Without '/' at either end, maybe empty.
  bool operator==(const ServerAddress&) const = default;
};

/// The address in `text`, the value of the variable `name`. Without a scheme it is http, as for emulators.
/// ErrorKind::invalid when it is no address; the message does not repeat `text`, which could hold a secret. Pure.
[[nodiscard]] Result<ServerAddress> parse_server_address(std::string_view name, std::string_view text);

}  // namespace trainyard::storage

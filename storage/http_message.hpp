#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::storage {

struct HttpRequest {
  std::string method;
  std::string url;
  std::map<std::string, std::string> headers;
  std::vector<std::span<const std::byte>> body;  ///< In order; not copied, and must stay alive until the reply came.
  std::span<std::byte> into;                     ///< Where a 2xx reply's body goes; empty: into the reply.
  /// For the whole exchange, when the server may be silent for long. Empty: a transfer that stalls is given up.
  std::optional<std::chrono::milliseconds> deadline;
  bool follows_redirects = false;  ///< A few, and never from https to http.
  bool is_direct = false;          ///< Through no proxy: for addresses of this machine.
};

/// The status of a reply that holds a whole object. A reply that holds a part of one has 206.
inline constexpr long http_ok = 200;

struct HttpReply {
  long status = 0;
  std::map<std::string, std::string> headers;  ///< Names in lower case; values of one name joined by ", ".
  std::string body;                            ///< Empty for a 2xx reply to a request with `into`.
  std::uint64_t into_bytes = 0;                ///< How much of `into` was filled.

  /// The value of `name`; empty when the reply has no such header.
  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string{} : found->second;
  }
};

}  // namespace trainyard::storage

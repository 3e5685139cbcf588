#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

enum class Scheme { file, s3, gs, az, web, command };

/// The place of a store's objects.
struct Uri {
  Scheme scheme = Scheme::file;
  std::string bucket;  ///< s3 and gs, and az: the container.
  /// For file and command an absolute folder. For s3, gs and az the prefix, and for web the folder on the server,
  /// without '/' at either end; may be empty.
  std::string path;
  std::string origin = {};   ///< web only: "https://host:port".
  std::string program = {};  ///< command only: an absolute path.
  bool operator==(const Uri&) const = default;
};

/// Reads file:///absolute/folder, s3://bucket/prefix (or gs, or az), https://host/folder or
/// command:/program?folder=/absolute/folder. ErrorKind::invalid for any other text; the message says what would be
/// right.
[[nodiscard]] Result<Uri> parse_uri(std::string_view text);

/// The text that parse_uri() reads back.
[[nodiscard]] std::string to_string(const Uri& uri);

/// The error of an attempt to write to `uri`, of Scheme::web.
[[nodiscard]] Error read_only(std::string_view uri);

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

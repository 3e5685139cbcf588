#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

enum class Scheme { file, s3, gs, az, web, command };

/// Where a store's objects are.
struct Uri {
  Scheme scheme = Scheme::file;
  std::string bucket;  ///< s3 and gs, and az: the container.
  /// file and command: an absolute folder. s3, gs and az: the prefix, and web: the folder on the server, without '/' at
  /// either end, maybe empty.
  std::string path;
  std::string origin = {};   ///< web only: "https://host:port".
  std::string program = {};  ///< command only: an absolute path.
  bool operator==(const Uri&) const = default;
};

/// ErrorKind::invalid names what would have been right: file:///absolute/folder, s3://bucket/prefix (or gs, or az),
/// https://host/folder or command:/program?folder=/absolute/folder.
[[nodiscard]] Result<Uri> parse_uri(std::string_view text);

/// The text that parse_uri() reads back.
[[nodiscard]] std::string to_string(const Uri& uri);

/// Whoever would write to `uri`, of Scheme::web, gets this.
[[nodiscard]] Error read_only(std::string_view uri);

}  // namespace trainyard::storage

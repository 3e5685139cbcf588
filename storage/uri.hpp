#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

enum class Scheme { file, s3 };

/// Where a store's objects are.
struct Uri {
  Scheme scheme = Scheme::file;
  std::string bucket;  ///< s3 only.
  std::string path;    ///< file: an absolute folder. s3: the prefix, without '/' at either end, maybe empty.
  bool operator==(const Uri&) const = default;
};

/// ErrorKind::invalid names what would have been right: file:///absolute/folder or s3://bucket/prefix.
[[nodiscard]] Result<Uri> parse_uri(std::string_view text);

/// The text that parse_uri() reads back.
[[nodiscard]] std::string to_string(const Uri& uri);

}  // namespace trainyard::storage

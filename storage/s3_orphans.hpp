#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/s3_client.hpp"

/// Multipart uploads that were begun and never completed. Their parts cost money, and no list of objects shows them.
namespace trainyard::storage {

struct S3OpenUpload {
  std::string object;  ///< Under the bucket.
  std::string id;
  std::optional<Time> began;  ///< By the server's clock; nothing when it does not say.
  bool operator==(const S3OpenUpload&) const = default;
};

/// One page of a list of uploads.
struct S3OpenUploads {
  std::vector<S3OpenUpload> uploads;
  bool is_last = true;
  std::string next_key;  ///< How to ask for the next page, with `next_id`.
  std::string next_id;
};

/// Reads ListMultipartUploadsResult; invalid for another text. Pure.
[[nodiscard]] Result<S3OpenUploads> parse_uploads(std::string_view body, std::string_view doing);

/// All uploads of objects that begin with `prefix`.
[[nodiscard]] Result<std::vector<S3OpenUpload>> list_uploads(S3Client& client, const std::string& prefix,
                                                             const std::string& doing);

/// Those that began before `began_before`, of objects whose folder below `prefix` is abandoned. Pure.
[[nodiscard]] std::vector<S3OpenUpload> orphans(const std::vector<S3OpenUpload>& uploads, std::string_view prefix,
                                                Time began_before,
                                                const std::function<bool(std::string_view folder)>& is_abandoned);

}  // namespace trainyard::storage

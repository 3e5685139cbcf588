#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/s3_client.hpp"

/// Multipart uploads that were begun and never completed. Their parts cost money, and lists of objects do not show
/// them.
namespace trainyard::storage {

struct S3OpenUpload {
  std::string object;  ///< Its key in the bucket.
  std::string id;
  std::optional<Time> began;  ///< By the server's clock; empty when the reply has no date.
  bool operator==(const S3OpenUpload&) const = default;
};

/// One page of a list of uploads.
struct S3OpenUploads {
  std::vector<S3OpenUpload> uploads;
  bool is_last = true;
  std::string next_key;  ///< With `next_id`: how to ask for the next page.
  std::string next_id;
};

/// Reads ListMultipartUploadsResult; invalid for another text. Pure.
[[nodiscard]] Result<S3OpenUploads> parse_uploads(std::string_view body, std::string_view doing);

/// All uploads of objects that begin with `prefix`.
[[nodiscard]] Result<std::vector<S3OpenUpload>> list_uploads(S3Client& client, const std::string& prefix,
                                                             const std::string& doing);

/// The uploads in `uploads` that began before `began_before` and whose object is in an abandoned folder below `prefix`.
/// Pure.
[[nodiscard]] std::vector<S3OpenUpload> orphans(const std::vector<S3OpenUpload>& uploads, std::string_view prefix,
                                                Time began_before,
                                                const std::function<bool(std::string_view folder)>& is_abandoned);

}  // namespace trainyard::storage

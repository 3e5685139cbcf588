#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "storage/cloud_client.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"

/// Multipart uploads of Google Cloud Storage's XML API.
/// Source: https://cloud.google.com/storage/docs/multipart-uploads
namespace trainyard::storage {

struct GcsUpload {
  std::string xml_path;   ///< "/bucket/object", encoded.
  std::string json_path;  ///< The object's path in the JSON API.
  std::string doing;      ///< "put gs://bucket/key"
  TransferPlan plan;
  std::chrono::milliseconds completion_deadline{};  ///< Limit of one try to complete.
};

/// Begins an upload and returns its id. The error is not transient when the server has no multipart uploads or the role
/// does not allow them.
[[nodiscard]] Result<std::string> begin_gcs_upload(CloudClient& client, const GcsUpload& upload);

/// Sends `pieces` as the parts of the upload `id`, without copying them, and joins the parts. On failure it aborts the
/// upload. ErrorKind::gone when the server no longer knows the upload.
[[nodiscard]] Result<void> finish_gcs_upload(CloudClient& client, const GcsUpload& upload, const std::string& id,
                                             Pieces pieces);

/// Makes the server forget the upload `id` and its parts. Tries for a few seconds, and logs when parts may be left.
void abort_gcs_upload(CloudClient& client, const std::string& xml_path, const std::string& id,
                      const std::string& doing);

/// The value of the header x-goog-hash for `pieces`: "crc32c=AAAAAA==".
[[nodiscard]] std::string gcs_hash(Pieces pieces);

/// True unless `reply` has a CRC-32C in x-goog-hash that differs from `hash`, a value of gcs_hash().
[[nodiscard]] bool matches_gcs_hash(const HttpReply& reply, const std::string& hash);

}  // namespace trainyard::storage

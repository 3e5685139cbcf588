#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "storage/s3_client.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"

namespace trainyard::storage {

/// How an object is sent in parts.
struct S3Upload {
  std::string object;  ///< Its key in the bucket.
  std::string doing;   ///< "put s3://bucket/key"
  PutOptions options;
  TransferPlan plan;
  std::chrono::milliseconds completion_deadline{};  ///< Limit of one request to complete the upload.
};

/// Puts `pieces` by a multipart upload, without copying them. On failure calls abort_upload().
[[nodiscard]] Result<void> upload_in_parts(S3Client& client, const S3Upload& upload, Pieces pieces);

/// Makes the server forget the upload `id` of `object` and its parts. Tries for a few seconds, and logs `doing` when
/// parts may be left.
void abort_upload(S3Client& client, const std::string& object, const std::string& id, const std::string& doing);

/// The pieces that hold the bytes [begin, begin + bytes) of `pieces`.
[[nodiscard]] std::vector<std::span<const std::byte>> slice_of(Pieces pieces, std::uint64_t begin, std::uint64_t bytes);

/// The CRC-32C of `pieces`, as S3 writes it: big-endian, in base64.
[[nodiscard]] std::string checksum_text(Pieces pieces);

}  // namespace trainyard::storage

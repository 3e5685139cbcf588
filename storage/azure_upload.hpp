#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "storage/cloud_client.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"

namespace trainyard::storage {

/// How a large blob is sent in blocks.
struct AzureUpload {
  std::string path;   ///< The blob's, percent-encoded.
  std::string doing;  ///< "put az://container/key"
  PutOptions options;
  TransferPlan plan;
  std::chrono::milliseconds commit_deadline{};  ///< Limit of one try to commit.
};

/// Sends `pieces` as blocks, without copying them, and then makes the blob of the blocks: no reader sees a part of it.
/// The server drops the blocks of a failed upload after a week.
[[nodiscard]] Result<void> upload_in_blocks(CloudClient& client, const AzureUpload& upload, Pieces pieces);

}  // namespace trainyard::storage

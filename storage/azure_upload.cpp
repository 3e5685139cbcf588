#include "storage/azure_upload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <vector>

#include "common/base64.hpp"
#include "storage/content_md5.hpp"
#include "storage/s3_upload.hpp"

namespace trainyard::storage {
namespace {

constexpr int block_upload_tries_max = 3;

struct Block {
  std::vector<std::span<const std::byte>> body;
  std::string id;  // In base64; Azure wants all ids of a blob to have one length.
};

std::vector<Block> cut_into_blocks(Pieces pieces, std::uint64_t block_bytes) {
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  // Blocks that another upload of the same blob sends at the same time have other ids.
  std::random_device random;
  const std::string upload_id = fmt::format("{:08x}{:08x}", random(), random());
  std::vector<Block> blocks;
  for (std::uint64_t begin = 0; begin < bytes; begin += block_bytes) {
    blocks.push_back({.body = slice_of(pieces, begin, std::min(block_bytes, bytes - begin)),
                      .id = encode_base64(fmt::format("{}-{:06}", upload_id, blocks.size()))});
  }
  return blocks;
}

Result<void> send_blocks(CloudClient& client, const AzureUpload& upload, const std::vector<Block>& blocks) {
  std::vector<CloudCall> calls;
  for (const Block& block : blocks) {
    calls.push_back({.make = [&upload, &block]() -> CloudRequest {
                       CloudRequest request{.method = "PUT",
                                            .path = upload.path,
                                            .query = {{"comp", "block"}, {"blockid", block.id}},
                                            .headers = {},
                                            .body = block.body};
                       if (const auto md5 = content_md5(block.body)) request.headers["content-md5"] = *md5;
                       return request;
                     },
                     .accept = [&upload, &block](const HttpReply& reply) -> Result<void> {
                       if (!is_other_md5(reply.header("content-md5"), block.body)) return {};
                       return fail(
                           ErrorKind::corrupt,
                           fmt::format("{}: the server holds other bytes of a block than were sent", upload.doing));
                     },
                     .doing = upload.doing});
  }
  return client.perform(calls, upload.plan.connection_count, OnError::drain);
}

Result<void> commit_blocks(CloudClient& client, const AzureUpload& upload, const std::vector<Block>& blocks) {
  std::string text = R"(<?xml version="1.0" encoding="utf-8"?><BlockList>)";
  // "Latest" also finds committed blocks: an earlier try whose reply was lost may have made the blob of them.
  for (const Block& block : blocks) text += fmt::format("<Latest>{}</Latest>", block.id);
  text += "</BlockList>";
  const CloudCall call{.make = [&]() -> CloudRequest {
                         CloudRequest request{.method = "PUT",
                                              .path = upload.path,
                                              .query = {{"comp", "blocklist"}},
                                              .headers = {{"content-type", "application/xml"}},
                                              .body = {std::as_bytes(std::span{text})},
                                              .deadline = upload.commit_deadline};
                         if (upload.options.if_absent) request.headers["if-none-match"] = "*";
                         return request;
                       },
                       .accept = [](const HttpReply&) -> Result<void> { return {}; },
                       .doing = upload.doing};
  return client.perform({&call, 1}, 1);
}

}  // namespace

Result<void> upload_in_blocks(CloudClient& client, const AzureUpload& upload, Pieces pieces) {
  for (int tries = 1;; ++tries) {
    const std::vector<Block> blocks = cut_into_blocks(pieces, upload.plan.part_bytes);
    auto done = send_blocks(client, upload, blocks).and_then([&] { return commit_blocks(client, upload, blocks); });
    const bool is_to_be_repeated = !done && done.error().kind == ErrorKind::gone;
    if (!is_to_be_repeated || tries == block_upload_tries_max) return done;
  }
}

}  // namespace trainyard::storage

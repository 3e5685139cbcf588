#include "storage/s3_upload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "common/logging.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"
#include "storage/s3_client.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

constexpr int upload_tries_max = 3;
constexpr int abort_tries_max = 5;
// Parts that are left cost money, but the caller may have little time.
constexpr std::chrono::milliseconds abort_patience{3'000};

using CrcBytes = std::array<unsigned char, 4>;

CrcBytes big_endian(std::uint32_t crc) {
  return {static_cast<unsigned char>(crc >> 24), static_cast<unsigned char>(crc >> 16),
          static_cast<unsigned char>(crc >> 8), static_cast<unsigned char>(crc)};
}

std::string base64(const CrcBytes& bytes) {
  return encode_base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::uint32_t crc_of(Pieces pieces) {
  std::uint32_t crc = 0;
  for (const auto& piece : pieces) crc = crc32c(piece, crc);
  return crc;
}

struct Part {
  std::vector<std::span<const std::byte>> body;
  std::uint32_t crc = 0;
  std::string etag;
};

std::vector<Part> cut(Pieces pieces, std::uint64_t part_bytes) {
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  std::vector<Part> parts;
  for (std::uint64_t begin = 0; begin < bytes; begin += part_bytes) {
    parts.push_back({.body = slice_of(pieces, begin, std::min(part_bytes, bytes - begin)), .crc = 0, .etag = {}});
  }
  return parts;
}

Result<std::string> create_upload(S3Client& client, const S3Upload& upload) {
  const auto reply = TRY(client.send(upload.doing, {.method = "POST",
                                                    .object = upload.object,
                                                    .query = {{"uploads", ""}},
                                                    .headers = client.config().encryption,
                                                    .checksums = {{"x-amz-checksum-algorithm", "CRC32C"}}}));
  std::string id = xml::text_of(reply.body, "UploadId");
  if (id.empty())
    return fail(ErrorKind::invalid,
                fmt::format("{}: {} began no upload: is it an S3 server?", upload.doing, client.config().endpoint()));
  return id;
}

Result<void> send_parts(S3Client& client, const S3Upload& upload, const std::string& id, std::vector<Part>& parts) {
  std::vector<S3Call> calls;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[i];
    calls.push_back({.make = [&client, &upload, &id, &part, i]() -> S3Request {
                       S3Request request{.method = "PUT",
                                         .object = upload.object,
                                         .query = {{"partNumber", std::to_string(i + 1)}, {"uploadId", id}},
                                         .headers = {},
                                         .checksums = {},
                                         .body = part.body};
                       if (!client.has_checksums()) return request;
                       part.crc = crc_of(part.body);
                       request.checksums["x-amz-checksum-crc32c"] = base64(big_endian(part.crc));
                       return request;
                     },
                     .accept = [&upload, &part](const HttpReply& reply) -> Result<void> {
                       part.etag = reply.header("etag");
                       if (part.etag.empty())
                         return fail(ErrorKind::unavailable, fmt::format("{}: a part got no ETag", upload.doing));
                       return {};
                     },
                     .doing = upload.doing,
                     .retries_conflict = false});
  }
  return client.perform(calls, upload.plan.connection_count, OnError::drain);
}

std::string completion_text(const std::vector<Part>& parts, bool has_checksums) {
  std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", i + 1, xml::escaped(parts[i].etag));
    if (has_checksums) text += fmt::format("<ChecksumCRC32C>{}</ChecksumCRC32C>", base64(big_endian(parts[i].crc)));
    text += "</Part>";
  }
  return text + "</CompleteMultipartUpload>";
}

// The checksum of an object in parts: the CRC of the parts' CRCs, and the number of parts.
std::string composite_checksum(const std::vector<Part>& parts) {
  std::uint32_t crc = 0;
  for (const Part& part : parts) {
    const CrcBytes bytes = big_endian(part.crc);
    crc = crc32c(std::as_bytes(std::span{bytes}), crc);
  }
  return fmt::format("{}-{}", base64(big_endian(crc)), parts.size());
}

// Without a '-' it is the checksum of the whole object, which is unknown here.
bool is_other_composite(const std::string& checksum, const std::vector<Part>& parts) {
  return checksum.find('-') != std::string::npos && checksum != composite_checksum(parts);
}

// True unless the server's reply shows that the object differs from `parts`.
bool is_complete(S3Client& client, const S3Upload& upload, const std::vector<Part>& parts) {
  const auto reply =
      client.send(fmt::format("look for {}", upload.object), {.method = "HEAD",
                                                              .object = upload.object,
                                                              .query = {},
                                                              .headers = {},
                                                              .checksums = {{"x-amz-checksum-mode", "ENABLED"}}});
  if (!reply) return false;
  std::size_t bytes = 0;
  for (const Part& part : parts) {
    for (const auto& piece : part.body) bytes += piece.size();
  }
  const std::string checksum = reply->header("x-amz-checksum-crc32c");
  const bool has_other_checksum = client.has_checksums() && is_other_composite(checksum, parts);
  return reply->header("content-length") == std::to_string(bytes) && !has_other_checksum;
}

Result<void> complete_upload(S3Client& client, const S3Upload& upload, const std::string& id,
                             const std::vector<Part>& parts) {
  const std::string text = completion_text(parts, client.has_checksums());
  int tries = 0;
  const auto accept = [&](const HttpReply& reply) -> Result<void> {
    // A slow server answers 200 first and may find an error afterwards.
    if (xml::element(reply.body, "Error")) return tl::unexpected(s3_error(reply, upload.doing, client.config()));
    const std::string checksum = xml::text_of(reply.body, "ChecksumCRC32C");
    if (client.has_checksums() && is_other_composite(checksum, parts)) {
      return fail(ErrorKind::corrupt, fmt::format("{}: the server holds other bytes than were sent", upload.doing));
    }
    return {};
  };
  const S3Call call{.make = [&]() -> S3Request {
                      ++tries;
                      S3Request request{.method = "POST",
                                        .object = upload.object,
                                        .query = {{"uploadId", id}},
                                        .headers = {},
                                        .body = {std::as_bytes(std::span{text})},
                                        .payload_hash = sha256_text(text),
                                        .deadline = upload.completion_deadline};
                      if (upload.options.if_absent) request.headers["if-none-match"] = "*";
                      return request;
                    },
                    .accept = accept,
                    .doing = upload.doing,
                    .retries_conflict = false};
  auto done = client.perform({&call, 1}, 1);
  // An earlier try, whose reply was lost, completed the upload. With if_absent the caller must get already_exists.
  const bool may_be_done = !done && done.error().kind == ErrorKind::gone && tries > 1 && !upload.options.if_absent;
  if (may_be_done && is_complete(client, upload, parts)) return {};
  return done;
}

bool is_forgotten(const Error& error) {
  return error.kind == ErrorKind::gone || error.kind == ErrorKind::not_found;
}

Result<void> upload_once(S3Client& client, const S3Upload& upload, Pieces pieces) {
  const auto id = TRY(create_upload(client, upload));
  std::vector<Part> parts = cut(pieces, upload.plan.part_bytes);
  auto done =
      send_parts(client, upload, id, parts).and_then([&] { return complete_upload(client, upload, id, parts); });
  if (!done) abort_upload(client, upload.object, id, upload.doing);
  return done;
}

}  // namespace

// S3's manual: parts in flight may arrive after an abort, which must be repeated until no part is left.
void abort_upload(S3Client& client, const std::string& object, const std::string& id, const std::string& doing) {
  const S3Request about{.method = "DELETE", .object = object, .query = {{"uploadId", id}}};
  S3Request look = about;
  look.method = "GET";
  Result<HttpReply> reply;
  for (int tries = 0; tries < abort_tries_max; ++tries) {
    reply = client.send(fmt::format("abort an upload: {}", doing), about, abort_patience);
    // The server no longer knows the upload, so nothing is left.
    if (!reply && !is_forgotten(reply.error())) break;
    reply = client.send(fmt::format("look for an aborted upload: {}", doing), look, abort_patience);
    if (!reply && is_forgotten(reply.error())) return;
    // The abort succeeded. Without permission to list the parts, assume that none is left.
    if (!reply && reply.error().kind == ErrorKind::forbidden) return;
    if (!reply) break;
  }
  logging::warn("parts of an unfinished upload may be left on the server",
                {{"object", object}, {"error", reply ? "they came back after each abort" : reply.error().message}});
}

Result<void> upload_in_parts(S3Client& client, const S3Upload& upload, Pieces pieces) {
  for (int tries = 1;; ++tries) {
    auto done = upload_once(client, upload, pieces);
    // The server has dropped the upload, since another writer wrote the object.
    const bool is_to_be_repeated =
        !done && (done.error().kind == ErrorKind::conflict || done.error().kind == ErrorKind::gone);
    if (is_to_be_repeated && tries < upload_tries_max) continue;
    return done;
  }
}

std::vector<std::span<const std::byte>> slice_of(Pieces pieces, std::uint64_t begin, std::uint64_t bytes) {
  std::vector<std::span<const std::byte>> slice;
  for (const auto& piece : pieces) {
    if (bytes == 0) break;
    if (begin >= piece.size()) {
      begin -= piece.size();
      continue;
    }
    const auto part = piece.subspan(begin, std::min<std::uint64_t>(bytes, piece.size() - begin));
    slice.push_back(part);
    bytes -= part.size();
    begin = 0;
  }
  return slice;
}

std::string checksum_text(Pieces pieces) {
  return base64(big_endian(crc_of(pieces)));
}

}  // namespace trainyard::storage

#include "storage/gcs_upload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"
#include "storage/s3_upload.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds gcs_abort_patience{3'000};
constexpr std::string_view hash_begin = "crc32c=";

struct GcsPart {
  std::vector<std::span<const std::byte>> body;
  std::string hash;
  std::string etag;
};

std::uint64_t byte_count(Pieces pieces) {
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

std::vector<GcsPart> gcs_parts(Pieces pieces, std::uint64_t part_bytes) {
  const std::uint64_t bytes = byte_count(pieces);
  std::vector<GcsPart> parts;
  for (std::uint64_t begin = 0; begin < bytes; begin += part_bytes)
    parts.push_back({.body = slice_of(pieces, begin, std::min(part_bytes, bytes - begin)), .hash = {}, .etag = {}});
  return parts;
}

Result<void> send_gcs_parts(CloudClient& client, const GcsUpload& upload, const std::string& id,
                            std::vector<GcsPart>& parts) {
  std::vector<CloudCall> calls;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    GcsPart& part = parts[i];
    calls.push_back({.make = [&upload, &id, &part, i]() -> CloudRequest {
                       part.hash = gcs_hash(part.body);
                       return {.method = "PUT",
                               .path = upload.xml_path,
                               .query = {{"partNumber", std::to_string(i + 1)}, {"uploadId", id}},
                               .headers = {{"x-goog-hash", part.hash}},
                               .body = part.body};
                     },
                     .accept = [&upload, &part](const HttpReply& reply) -> Result<void> {
                       part.etag = reply.header("etag");
                       if (part.etag.empty())
                         return fail(ErrorKind::unavailable, fmt::format("{}: a part got no ETag", upload.doing));
                       if (matches_gcs_hash(reply, part.hash)) return {};
                       return fail(
                           ErrorKind::corrupt,
                           fmt::format("{}: the server holds other bytes of a part than were sent", upload.doing));
                     },
                     .doing = upload.doing});
  }
  return client.perform(calls, upload.plan.connection_count, OnError::drain);
}

std::string gcs_completion_text(const std::vector<GcsPart>& parts) {
  std::string text = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, xml::escaped(parts[i].etag));
  }
  return text + "</CompleteMultipartUpload>";
}

// Compares the CRC of the whole object: those of the parts do not prove that the server joined them correctly.
Result<void> check_gcs_object(CloudClient& client, const GcsUpload& upload, Pieces pieces) {
  const auto reply =
      TRY(client.send(fmt::format("check the outcome of: {}", upload.doing),
                      {.method = "GET", .path = upload.json_path, .query = {{"fields", "size,crc32c"}}}));
  const json object = json::parse(reply.body, nullptr, false);
  const auto member = [&](const char* name) {
    return object.contains(name) && object[name].is_string() ? object[name].get<std::string>() : std::string{};
  };
  if (member("size") == std::to_string(byte_count(pieces)) &&
      fmt::format("{}{}", hash_begin, member("crc32c")) == gcs_hash(pieces))
    return {};
  return fail(ErrorKind::corrupt, fmt::format("{}: the server holds other bytes than were sent", upload.doing));
}

Result<void> complete_gcs_upload(CloudClient& client, const GcsUpload& upload, const std::string& id,
                                 const std::vector<GcsPart>& parts, Pieces pieces) {
  const std::string text = gcs_completion_text(parts);
  int tries = 0;
  const CloudCall call{
      .make = [&]() -> CloudRequest {
        ++tries;
        return {.method = "POST",
                .path = upload.xml_path,
                .query = {{"uploadId", id}},
                .body = {std::as_bytes(std::span{text})},
                .deadline = upload.completion_deadline};
      },
      .accept = [&](const HttpReply& reply) -> Result<void> {
        // A slow server answers 200 first and may find an error afterwards.
        if (!xml::element(reply.body, "Error")) return {};
        return fail(ErrorKind::unavailable,
                    fmt::format("{}: the parts were not joined: {}", upload.doing, xml::text_of(reply.body, "Code")));
      },
      .doing = upload.doing};
  const auto done = client.perform({&call, 1}, 1);
  // An earlier try, whose reply was lost, may have completed the upload.
  const bool may_be_done = !done && done.error().kind == ErrorKind::gone && tries > 1;
  if (may_be_done) return check_gcs_object(client, upload, pieces) ? Result<void>{} : done;
  return done ? check_gcs_object(client, upload, pieces) : done;
}

}  // namespace

Result<std::string> begin_gcs_upload(CloudClient& client, const GcsUpload& upload) {
  const auto reply = TRY(client.send(upload.doing, {.method = "POST",
                                                    .path = upload.xml_path,
                                                    .query = {{"uploads", ""}},
                                                    .headers = {{"content-type", "application/octet-stream"}}}));
  std::string id = xml::text_of(reply.body, "UploadId");
  if (id.empty()) return fail(ErrorKind::invalid, fmt::format("{}: the server began no upload", upload.doing));
  return id;
}

Result<void> finish_gcs_upload(CloudClient& client, const GcsUpload& upload, const std::string& id, Pieces pieces) {
  std::vector<GcsPart> parts = gcs_parts(pieces, upload.plan.part_bytes);
  auto done = send_gcs_parts(client, upload, id, parts).and_then([&] {
    return complete_gcs_upload(client, upload, id, parts, pieces);
  });
  if (!done) abort_gcs_upload(client, upload.xml_path, id, upload.doing);
  return done;
}

void abort_gcs_upload(CloudClient& client, const std::string& xml_path, const std::string& id,
                      const std::string& doing) {
  const auto aborted =
      client.send(fmt::format("abort an upload: {}", doing),
                  {.method = "DELETE", .path = xml_path, .query = {{"uploadId", id}}}, gcs_abort_patience);
  const bool is_unknown =
      !aborted && (aborted.error().kind == ErrorKind::gone || aborted.error().kind == ErrorKind::not_found);
  if (aborted || is_unknown) return;
  logging::warn("parts of an unfinished upload may be left on the server",
                {{"object", xml_path}, {"error", aborted.error().message}});
}

std::string gcs_hash(Pieces pieces) {
  return fmt::format("{}{}", hash_begin, checksum_text(pieces));
}

bool matches_gcs_hash(const HttpReply& reply, const std::string& hash) {
  const std::string told = reply.header("x-goog-hash");
  const std::size_t begin = told.find(hash_begin);
  return begin == std::string::npos || told.substr(begin, told.find_first_of(", ", begin) - begin) == hash;
}

}  // namespace trainyard::storage

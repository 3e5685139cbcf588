#include "storage/azure_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/azure_credentials.hpp"
#include "storage/azure_protocol.hpp"
#include "storage/cloud_client.hpp"
#include "storage/content_md5.hpp"
#include "storage/oauth.hpp"
#include "storage/s3_upload.hpp"
#include "storage/sigv4.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

constexpr const char* azure_version = "2021-12-02";
constexpr std::chrono::seconds azure_issuer_patience{5};
// Source: https://learn.microsoft.com/rest/api/storageservices/understanding-block-blobs
constexpr TransferLimits block_limits{.part_bytes_max = std::uint64_t{4'000} << 20, .part_count_max = 50'000};

struct BlobPage {
  std::vector<ObjectInfo> objects;
  std::string next_marker;  // How to ask for the next page; empty: this is the last one.
};

// Accounts with a hierarchy list folders as blobs, and some clients store an empty blob for each folder.
bool is_folder(std::string_view blob, std::string_view name) {
  return xml::text_of(blob, "ResourceType") == "directory" || xml::text_of(blob, "hdi_isfolder") == "true" ||
         name.ends_with('/');
}

Result<BlobPage> parse_blob_page(const std::string& body, std::string_view doing, std::size_t prefix_bytes) {
  const auto result = xml::element(body, "EnumerationResults");
  const auto blobs = result ? xml::element(*result, "Blobs") : std::nullopt;
  if (!result)
    return fail(ErrorKind::invalid,
                fmt::format("{}: the reply is no list of blobs: is this Azure Blob Storage?", doing));
  BlobPage page;
  for (const std::string_view blob : xml::elements(blobs.value_or(""), "Blob")) {
    const std::string name = xml::text_of(blob, "Name");
    const auto bytes = parse_number<std::uint64_t>(xml::text_of(blob, "Content-Length"));
    if (!bytes)
      return fail(ErrorKind::invalid, fmt::format("{}: the server does not give the size of {}", doing, name));
    if (name.size() <= prefix_bytes || is_folder(blob, name)) continue;
    page.objects.push_back({.key = name.substr(prefix_bytes), .bytes = *bytes});
  }
  page.next_marker = xml::text_of(*result, "NextMarker");
  return page;
}

CloudService azure_service(const AzurePlace& place) {
  const AzureSettings& settings = place.settings;
  return {.endpoint = settings.endpoint(),
          .tokens = place.tokens,
          .query_token = settings.sas_token,
          .sign = [&place, &settings](CloudRequest& request) -> Result<void> {
            request.headers["x-ms-version"] = azure_version;
            request.headers["x-ms-date"] = azure_date(place.clock->now());
            if (settings.account_key.empty()) return {};
            const auto key = decode_base64(settings.account_key);
            if (!key) return fail(ErrorKind::unauthorized, "the storage account's key is not base64");
            AzureSignedParts parts{
                .method = request.method, .path = request.path, .query = request.query, .headers = request.headers};
            for (const auto& piece : request.body) parts.body_bytes += piece.size();
            request.headers["authorization"] = azure_authorization(parts, settings.account, *key);
            return {};
          },
          .error_of =
              [&place, &settings](const HttpReply& reply, std::string_view doing) {
                std::vector<std::string> secrets = {settings.account_key, settings.sas_token};
                if (place.tokens) {
                  for (const std::string& token : place.tokens->recent()) secrets.push_back(token);
                }
                return azure_error(reply, doing, settings.endpoint(), secrets);
              }};
}

/// How a large blob is sent in blocks.
struct AzureUpload {
  std::string path;   ///< The blob's, percent-encoded.
  std::string doing;  ///< "put az://container/key"
  PutOptions options;
  TransferPlan plan;
  std::chrono::milliseconds commit_deadline{};  ///< Limit of one try to commit.
};

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

/// Sends `pieces` as blocks, without copying them, and then makes the blob of the blocks: no reader sees a part of it.
/// The server drops the blocks of a failed upload after a week.
Result<void> upload_in_blocks(CloudClient& client, const AzureUpload& upload, Pieces pieces) {
  for (int tries = 1;; ++tries) {
    const std::vector<Block> blocks = cut_into_blocks(pieces, upload.plan.part_bytes);
    auto done = send_blocks(client, upload, blocks).and_then([&] { return commit_blocks(client, upload, blocks); });
    const bool is_to_be_repeated = !done && done.error().kind == ErrorKind::gone;
    if (!is_to_be_repeated || tries == block_upload_tries_max) return done;
  }
}

}  // namespace

Result<AzurePlace> make_azure_place(const Uri& uri, const Environment& environment) {
  auto settings = TRY(azure_settings(environment));
  AzurePlace place{.container = uri.bucket,
                   .prefix = uri.path,
                   .settings = std::move(settings),
                   .tokens = nullptr,
                   .ca_bundle = first_of(environment, {"SSL_CERT_FILE", "AWS_CA_BUNDLE"})};
  if (!place.settings.account_key.empty() || !place.settings.sas_token.empty()) return place;
  const auto http = std::make_shared<HttpClient>(issuer_tuning(azure_issuer_patience, environment));
  place.tokens = std::make_shared<AccessTokens>(
      [environment, http, clock = place.clock] { return fetch_azure_token(*http, environment, clock->now()); });
  return place;
}

AzureStore::AzureStore(AzurePlace place, AzureTuning tuning)
    : place_{std::move(place)}, tuning_{std::move(tuning)}, client_{azure_service(place_), tuning_.http} {}

std::string AzureStore::blob_of(std::string_view key) const {
  return place_.prefix.empty() ? std::string{key} : fmt::format("{}/{}", place_.prefix, key);
}

std::string AzureStore::path_of(std::string_view blob) const {
  std::string path = place_.settings.has_account_path ? fmt::format("/{}", place_.settings.account) : std::string{};
  path += fmt::format("/{}", percent_encoded(place_.container, false));
  return blob.empty() ? path : fmt::format("{}/{}", path, percent_encoded(blob, true));
}

std::string AzureStore::uri_of(std::string_view key) const {
  return fmt::format("az://{}/{}", place_.container, blob_of(key));
}

CloudRequest AzureStore::list_request(std::string_view prefix, std::int64_t blobs_max) const {
  return {.method = "GET",
          .path = path_of(""),
          .query = {{"restype", "container"},
                    {"comp", "list"},
                    {"include", "metadata"},
                    {"maxresults", std::to_string(blobs_max)},
                    {"prefix", blob_of(prefix)}}};
}

Result<void> AzureStore::probe() {
  const std::string doing = fmt::format("look into {}", uri_of(""));
  return client_.send(doing, list_request("", 1))
      .and_then([&](const HttpReply& reply) { return parse_blob_page(reply.body, doing, 0); })
      .map([](const BlobPage&) {});
}

Result<void> AzureStore::put(std::string_view key, Pieces pieces, const PutOptions& options) {
  TRY(check_key(key));
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  const TransferPlan plan = make_transfer_plan(bytes, tuning_.transfer, block_limits);
  if (bytes <= plan.part_bytes) return put_whole(key, pieces, options);
  return upload_in_blocks(client_,
                          {.path = path_of(blob_of(key)),
                           .doing = fmt::format("put {}", uri_of(key)),
                           .options = options,
                           .plan = plan,
                           .commit_deadline = tuning_.commit_deadline},
                          pieces);
}

Result<void> AzureStore::put_whole(std::string_view key, Pieces pieces, const PutOptions& options) {
  const auto checksum = content_md5(pieces);
  const CloudCall call{.make = [&]() -> CloudRequest {
                         CloudRequest request{
                             .method = "PUT",
                             .path = path_of(blob_of(key)),
                             .headers = {{"x-ms-blob-type", "BlockBlob"}, {"content-type", "application/octet-stream"}},
                             .body = {pieces.begin(), pieces.end()}};
                         if (checksum) request.headers["content-md5"] = *checksum;
                         if (options.if_absent) request.headers["if-none-match"] = "*";
                         return request;
                       },
                       .accept = [](const HttpReply&) -> Result<void> { return {}; },
                       .doing = fmt::format("put {}", uri_of(key))};
  return client_.perform({&call, 1}, 1);
}

Result<std::vector<std::byte>> AzureStore::get(std::string_view key) {
  TRY(check_key(key));
  const std::string doing = fmt::format("get {}", uri_of(key));
  std::vector<std::byte> content;
  const CloudCall call{.make = [&]() -> CloudRequest { return {.method = "GET", .path = path_of(blob_of(key))}; },
                       .accept = [&](const HttpReply& reply) -> Result<void> {
                         const auto bytes = std::as_bytes(std::span{reply.body});
                         if (is_other_md5(reply.header("content-md5"), {&bytes, 1}))
                           return fail(ErrorKind::corrupt, fmt::format("{}: its checksum does not match", doing));
                         content.assign(bytes.begin(), bytes.end());
                         return {};
                       },
                       .doing = doing};
  return client_.perform({&call, 1}, 1).map([&] { return std::move(content); });
}

Result<void> AzureStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  TRY(check_key(key));
  return client_.read_range(fmt::format("get {}", uri_of(key)), {.method = "GET", .path = path_of(blob_of(key))},
                            offset, into, make_read_plan(into.size(), tuning_.transfer));
}

Result<std::vector<ObjectInfo>> AzureStore::list(std::string_view prefix) {
  const std::string doing = fmt::format("list {}", uri_of(prefix));
  const std::size_t prefix_bytes = blob_of("").size();
  std::vector<ObjectInfo> objects;
  std::string marker;
  for (int pages = 0; pages < tuning_.list_pages_max; ++pages) {
    CloudRequest request = list_request(prefix, tuning_.page_blobs);
    if (!marker.empty()) request.query.emplace_back("marker", marker);
    auto page = TRY(client_.send(doing, std::move(request)).and_then([&](const HttpReply& reply) {
      return parse_blob_page(reply.body, doing, prefix_bytes);
    }));
    std::move(page.objects.begin(), page.objects.end(), std::back_inserter(objects));
    marker = page.next_marker;
    if (marker.empty()) {
      std::ranges::sort(objects, {}, &ObjectInfo::key);
      return objects;
    }
  }
  return fail(ErrorKind::unavailable, fmt::format("{}: the list does not end", doing));
}

Result<void> AzureStore::remove(std::string_view key, const std::stop_token& stop) {
  TRY(check_key(key));
  const CloudCall call{
      .make = [&]() -> CloudRequest {
        return {.method = "DELETE", .path = path_of(blob_of(key)), .headers = {{"x-ms-delete-snapshots", "include"}}};
      },
      .accept = [](const HttpReply&) -> Result<void> { return {}; },
      .doing = fmt::format("remove {}", uri_of(key)),
      .refuse = [](const HttpReply& reply, const Error& error) -> Result<void> {
        // A blob that does not exist counts as removed; a container that does not exist is an error.
        if (reply.status == 404 && azure_code(reply) == "BlobNotFound") return {};
        return tl::unexpected(error);
      }};
  return client_.perform({&call, 1}, 1, OnError::cut, stop);
}

}  // namespace trainyard::storage

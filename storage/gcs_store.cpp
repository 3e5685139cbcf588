#include "storage/gcs_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/logging.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/gcs_error.hpp"
#include "storage/gcs_upload.hpp"
#include "storage/s3_orphans.hpp"
#include "storage/sigv4.hpp"
#include "storage/store.hpp"

namespace trainyard::storage {
namespace {

using nlohmann::json;

// A list with more pages is a fault of the server.
constexpr int gcs_upload_pages_max = 1'000;
constexpr int gcs_upload_tries_max = 3;
constexpr long gcs_not_found = 404;

struct GcsPage {
  std::vector<ObjectInfo> objects;
  std::string next_token;  // How to ask for the next page; empty: this is the last one.
};

Result<GcsPage> parse_gcs_page(const std::string& body, std::string_view doing, std::size_t prefix_bytes) {
  const json object = json::parse(body, nullptr, false);
  const auto no_list = [&] {
    return fail(ErrorKind::invalid,
                fmt::format("{}: the reply is no list of objects: is this Google Cloud Storage?", doing));
  };
  if (!object.is_object()) return no_list();
  GcsPage page;
  const json items = object.value("items", json::array());
  if (!items.is_array()) return no_list();
  for (const json& item : items) {
    if (!item.is_object() || !item.contains("name") || !item.contains("size")) return no_list();
    if (!item["name"].is_string() || !item["size"].is_string()) return no_list();
    const auto& name = item["name"].get_ref<const std::string&>();
    const auto bytes = parse_number<std::uint64_t>(item["size"].get_ref<const std::string&>());
    if (!bytes) return no_list();
    if (name.size() <= prefix_bytes) continue;  // Such as the empty object that other programs make for a folder.
    page.objects.push_back({.key = name.substr(prefix_bytes), .bytes = *bytes});
  }
  if (const auto token = object.find("nextPageToken"); token != object.end() && token->is_string())
    page.next_token = *token;
  return page;
}

CloudService gcs_service(const GcsSettings& settings) {
  return {.endpoint = settings.endpoint,
          .tokens = settings.tokens,
          .query_token = {},
          .sign = nullptr,
          .error_of = [&settings](const HttpReply& reply, std::string_view doing) {
            return gcs_error(reply, doing, settings);
          }};
}

}  // namespace

GcsStore::GcsStore(GcsSettings settings, GcsTuning tuning)
    : settings_{std::move(settings)}, tuning_{std::move(tuning)}, client_{gcs_service(settings_), tuning_.http} {}

std::string GcsStore::object_of(std::string_view key) const {
  return settings_.prefix.empty() ? std::string{key} : fmt::format("{}/{}", settings_.prefix, key);
}

std::string GcsStore::json_path(std::string_view object) const {
  const std::string objects = fmt::format("/storage/v1/b/{}/o", percent_encoded(settings_.bucket, false));
  return object.empty() ? objects : fmt::format("{}/{}", objects, percent_encoded(object, false));
}

std::string GcsStore::xml_path(std::string_view object) const {
  const std::string bucket = fmt::format("/{}", percent_encoded(settings_.bucket, false));
  return object.empty() ? bucket : fmt::format("{}/{}", bucket, percent_encoded(object, true));
}

std::string GcsStore::uri_of(std::string_view key) const {
  return fmt::format("gs://{}/{}", settings_.bucket, object_of(key));
}

Result<void> GcsStore::probe() {
  const std::string doing = fmt::format("look into {}", uri_of(""));
  return client_
      .send(doing, {.method = "GET", .path = json_path(""), .query = {{"maxResults", "1"}, {"prefix", object_of("")}}})
      .and_then([&](const HttpReply& reply) { return parse_gcs_page(reply.body, doing, 0); })
      .map([](const GcsPage&) {});
}

Result<void> GcsStore::put(std::string_view key, Pieces pieces, const PutOptions& options) {
  TRY(check_key(key));
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  const TransferPlan plan = make_transfer_plan(bytes, tuning_.transfer);
  if (bytes <= plan.part_bytes || options.if_absent || !takes_parts_) return put_in_one_stream(key, pieces, options);
  return put_in_parts(key, pieces, plan);
}

Result<void> GcsStore::put_in_one_stream(std::string_view key, Pieces pieces, const PutOptions& options) {
  const std::string doing = fmt::format("put {}", uri_of(key));
  const std::string hash = gcs_hash(pieces);
  const CloudCall call{
      .make = [&]() -> CloudRequest {
        CloudRequest request{.method = "POST",
                             .path = "/upload" + json_path(""),
                             .query = {{"uploadType", "media"}, {"name", object_of(key)}},
                             .headers = {{"x-goog-hash", hash}, {"content-type", "application/octet-stream"}},
                             .body = {pieces.begin(), pieces.end()}};
        if (options.if_absent) request.query.emplace_back("ifGenerationMatch", "0");
        return request;
      },
      .accept = [&](const HttpReply& reply) -> Result<void> {
        const json object = json::parse(reply.body, nullptr, false);
        const bool tells = object.contains("crc32c") && object["crc32c"].is_string();
        if (!tells || fmt::format("crc32c={}", object["crc32c"].get<std::string>()) == hash) return {};
        return fail(ErrorKind::corrupt, fmt::format("{}: the server holds other bytes than were sent", doing));
      },
      .doing = doing};
  return client_.perform({&call, 1}, 1);
}

Result<void> GcsStore::put_in_parts(std::string_view key, Pieces pieces, const TransferPlan& plan) {
  const std::string object = object_of(key);
  const GcsUpload upload{.xml_path = xml_path(object),
                         .json_path = json_path(object),
                         .doing = fmt::format("put {}", uri_of(key)),
                         .plan = plan,
                         .completion_deadline = tuning_.completion_deadline};
  for (int tries = 1;; ++tries) {
    const auto id = begin_gcs_upload(client_, upload);
    if (!id && is_transient(id.error().kind)) return tl::unexpected(id.error());
    if (!id) {
      // An emulator may lack multipart uploads, and a role may not allow them. On any other error one stream fails too.
      auto put = put_in_one_stream(key, pieces, {});
      if (put && takes_parts_.exchange(false))
        logging::warn("large objects are sent in one stream each", {{"error", id.error().message}});
      return put;
    }
    auto done = finish_gcs_upload(client_, upload, *id, pieces);
    // ErrorKind::gone: another process has ended the upload.
    const bool is_to_be_repeated = !done && done.error().kind == ErrorKind::gone;
    if (!is_to_be_repeated || tries == gcs_upload_tries_max) return done;
  }
}

Result<std::vector<std::byte>> GcsStore::get(std::string_view key) {
  TRY(check_key(key));
  const std::string doing = fmt::format("get {}", uri_of(key));
  std::vector<std::byte> content;
  const CloudCall call{.make = [&]() -> CloudRequest {
                         return {.method = "GET", .path = json_path(object_of(key)), .query = {{"alt", "media"}}};
                       },
                       .accept = [&](const HttpReply& reply) -> Result<void> {
                         const auto bytes = std::as_bytes(std::span{reply.body});
                         if (!matches_gcs_hash(reply, gcs_hash({&bytes, 1})))
                           return fail(ErrorKind::corrupt, fmt::format("{}: its checksum does not match", doing));
                         content.assign(bytes.begin(), bytes.end());
                         return {};
                       },
                       .doing = doing};
  return client_.perform({&call, 1}, 1).map([&] { return std::move(content); });
}

Result<void> GcsStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  TRY(check_key(key));
  const CloudRequest whole{.method = "GET", .path = json_path(object_of(key)), .query = {{"alt", "media"}}};
  return client_.read_range(fmt::format("get {}", uri_of(key)), whole, offset, into,
                            make_read_plan(into.size(), tuning_.transfer));
}

Result<std::vector<ObjectInfo>> GcsStore::list(std::string_view prefix) {
  const std::string doing = fmt::format("list {}", uri_of(prefix));
  const std::size_t prefix_bytes = object_of("").size();
  std::vector<ObjectInfo> objects;
  std::string token;
  for (int pages = 0; pages < tuning_.list_pages_max; ++pages) {
    CloudRequest request{.method = "GET",
                         .path = json_path(""),
                         .query = {{"fields", "items(name,size),nextPageToken"},
                                   {"maxResults", std::to_string(tuning_.page_objects)},
                                   {"prefix", object_of(prefix)}}};
    if (!token.empty()) request.query.emplace_back("pageToken", token);
    auto page = TRY(client_.send(doing, std::move(request)).and_then([&](const HttpReply& reply) {
      return parse_gcs_page(reply.body, doing, prefix_bytes);
    }));
    std::move(page.objects.begin(), page.objects.end(), std::back_inserter(objects));
    token = page.next_token;
    if (token.empty()) {
      std::ranges::sort(objects, {}, &ObjectInfo::key);
      return objects;
    }
  }
  return fail(ErrorKind::unavailable, fmt::format("{}: the list does not end", doing));
}

Result<void> GcsStore::remove(std::string_view key, const std::stop_token& stop) {
  TRY(check_key(key));
  const CloudCall call{
      .make = [&]() -> CloudRequest { return {.method = "DELETE", .path = json_path(object_of(key))}; },
      .accept = [](const HttpReply&) -> Result<void> { return {}; },
      .doing = fmt::format("remove {}", uri_of(key)),
      .refuse = [](const HttpReply& reply, const Error& error) -> Result<void> {
        // An object that does not exist counts as removed; a bucket that does not exist is an error.
        if (reply.status == gcs_not_found && !is_missing_gcs_bucket(reply)) return {};
        return tl::unexpected(error);
      }};
  return client_.perform({&call, 1}, 1, OnError::cut, stop);
}

Result<void> GcsStore::remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) {
  const std::string prefix = object_of("");
  const std::string doing = fmt::format("list the unfinished uploads under {}", uri_of(""));
  std::vector<S3OpenUpload> uploads;
  S3OpenUploads page{.uploads = {}, .is_last = false, .next_key = {}, .next_id = {}};
  for (int pages = 0; !page.is_last && pages < gcs_upload_pages_max; ++pages) {
    CloudRequest request{.method = "GET", .path = xml_path(""), .query = {{"uploads", ""}, {"prefix", prefix}}};
    if (!page.next_key.empty()) request.query.emplace_back("key-marker", page.next_key);
    if (!page.next_id.empty()) request.query.emplace_back("upload-id-marker", page.next_id);
    auto next = client_.send(doing, std::move(request)).and_then([&](const HttpReply& reply) {
      return parse_uploads(reply.body, doing);
    });
    if (!next && is_transient(next.error().kind)) return tl::unexpected(next.error());
    if (!next) {
      logging::warn("unfinished uploads are left to the bucket's lifecycle rules", {{"error", next.error().message}});
      return {};
    }
    page = std::move(*next);
    std::move(page.uploads.begin(), page.uploads.end(), std::back_inserter(uploads));
    if (page.next_key.empty()) break;
  }
  const Time began_before = settings_.clock->now() - tuning_.orphan_age_min;
  for (const S3OpenUpload& upload : orphans(uploads, prefix, began_before, is_abandoned)) {
    abort_gcs_upload(client_, xml_path(upload.object), upload.id,
                     fmt::format("remove what is left of {}", upload.object));
  }
  return {};
}

}  // namespace trainyard::storage

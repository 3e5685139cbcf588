#include "storage/s3_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/logging.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/content_md5.hpp"
#include "storage/crc32c.hpp"
#include "storage/s3_orphans.hpp"
#include "storage/s3_removal.hpp"
#include "storage/s3_upload.hpp"
#include "storage/store.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

// A list with more pages is a fault of the server.
constexpr int object_pages_max = 100'000;
constexpr long not_found = 404;
constexpr long not_implemented = 501;

struct Page {
  std::vector<ObjectInfo> objects;
  bool is_last = true;
  std::string next_token;  // How to ask for the next page.
};

Result<Page> parse_page(const std::string& body, std::string_view doing, std::size_t prefix_bytes) {
  const auto result = xml::element(body, "ListBucketResult");
  if (!result)
    return fail(ErrorKind::invalid, fmt::format("{}: the reply is no list of objects: is this an S3 server?", doing));
  Page page;
  for (const std::string_view content : xml::elements(*result, "Contents")) {
    const std::string object = xml::text_of(content, "Key");
    const auto bytes = parse_number<std::uint64_t>(xml::text_of(content, "Size"));
    if (object.size() <= prefix_bytes || !bytes)
      continue;  // Such as the empty object that other programs make for a folder.
    page.objects.push_back({.key = object.substr(prefix_bytes), .bytes = *bytes});
  }
  page.is_last = xml::text_of(*result, "IsTruncated") != "true";
  page.next_token = xml::text_of(*result, "NextContinuationToken");
  return page;
}

Result<void> check_checksum(const HttpReply& reply, Pieces content, std::string_view doing) {
  const std::string checksum = reply.header("x-amz-checksum-crc32c");
  // A checksum with a '-' is made of the checksums of the parts, and cannot be compared with the whole object's.
  if (checksum.empty() || checksum.find('-') != std::string::npos || checksum == checksum_text(content)) return {};
  return fail(ErrorKind::corrupt, fmt::format("{}: its checksum does not match", doing));
}

}  // namespace

S3Store::S3Store(S3Config config, S3Tuning tuning)
    : client_{std::move(config), tuning.http}, tuning_{std::move(tuning)} {}

std::string S3Store::object_of(std::string_view key) const {
  const std::string& prefix = client_.config().prefix;
  return prefix.empty() ? std::string{key} : fmt::format("{}/{}", prefix, key);
}

std::string S3Store::uri_of(std::string_view key) const {
  return fmt::format("s3://{}/{}", client_.config().bucket, object_of(key));
}

Result<void> S3Store::probe() {
  const std::string doing = fmt::format("look into {}", uri_of(""));
  return client_
      .send(
          doing,
          {.method = "GET", .object = {}, .query = {{"list-type", "2"}, {"max-keys", "1"}, {"prefix", object_of("")}}})
      .and_then([&](const HttpReply& reply) { return parse_page(reply.body, doing, 0); })
      .map([](const Page&) {});
}

Result<void> S3Store::put(std::string_view key, Pieces pieces, const PutOptions& options) {
  TRY(check_key(key));
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  const TransferPlan plan = make_transfer_plan(bytes, tuning_.transfer);
  auto done = bytes <= plan.part_bytes ? put_whole(key, pieces, options)
                                       : upload_in_parts(client_,
                                                         {.object = object_of(key),
                                                          .doing = fmt::format("put {}", uri_of(key)),
                                                          .options = options,
                                                          .plan = plan,
                                                          .completion_deadline = tuning_.completion_deadline},
                                                         pieces);
  // Every try met another writer's put (409). We do not know what is stored; a later put may succeed.
  if (!done && done.error().kind == ErrorKind::conflict) done.error().kind = ErrorKind::unavailable;
  return done;
}

std::map<std::string, std::string> S3Store::checksums_of(Pieces pieces) const {
  if (!client_.has_checksums()) return {};
  return {{"x-amz-checksum-crc32c", checksum_text(pieces)}};
}

Result<void> S3Store::put_whole(std::string_view key, Pieces pieces, const PutOptions& options) {
  const S3Call call{.make = [&]() -> S3Request {
                      S3Request request{.method = "PUT",
                                        .object = object_of(key),
                                        .query = {},
                                        .headers = {},
                                        .checksums = checksums_of(pieces),
                                        .body = {pieces.begin(), pieces.end()}};
                      request.headers.insert(client_.config().encryption.begin(), client_.config().encryption.end());
                      if (options.if_absent) request.headers["if-none-match"] = "*";
                      return request;
                    },
                    .accept = [](const HttpReply&) -> Result<void> { return {}; },
                    .doing = fmt::format("put {}", uri_of(key)),
                    .refuse = [&](const HttpReply& reply, const Error& error) -> Result<void> {
                      if (options.if_absent && reply.status == not_implemented) has_conditional_create_ = false;
                      return tl::unexpected(error);
                    }};
  return client_.perform({&call, 1}, 1);
}

Result<std::vector<std::byte>> S3Store::get(std::string_view key) {
  TRY(check_key(key));
  const std::string doing = fmt::format("get {}", uri_of(key));
  std::vector<std::byte> content;
  const S3Call call{.make = [&]() -> S3Request {
                      return {.method = "GET",
                              .object = object_of(key),
                              .query = {},
                              .headers = {},
                              .checksums = {{"x-amz-checksum-mode", "ENABLED"}}};
                    },
                    .accept = [&](const HttpReply& reply) -> Result<void> {
                      const auto bytes = std::as_bytes(std::span{reply.body});
                      content.assign(bytes.begin(), bytes.end());
                      return check_checksum(reply, {&bytes, 1}, doing);
                    },
                    .doing = doing};
  return client_.perform({&call, 1}, 1).map([&] { return std::move(content); });
}

Result<void> S3Store::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  TRY(check_key(key));
  const std::string doing = fmt::format("get {}", uri_of(key));
  std::vector<S3Call> calls;
  const TransferPlan plan = make_read_plan(into.size(), tuning_.transfer);
  for (std::uint64_t begin = 0; begin < into.size(); begin += plan.part_bytes) {
    const std::span<std::byte> part =
        into.subspan(begin, std::min<std::uint64_t>(plan.part_bytes, into.size() - begin));
    calls.push_back({.make = [this, key, part, first = offset + begin]() -> S3Request {
                       return {.method = "GET",
                               .object = object_of(key),
                               .query = {},
                               .headers = {{"range", fmt::format("bytes={}-{}", first, first + part.size() - 1)}},
                               .into = part};
                     },
                     .accept = [&doing, part](const HttpReply& reply) -> Result<void> {
                       if (reply.into_bytes == part.size()) return {};
                       return fail(ErrorKind::corrupt, fmt::format("{}: it ends {} bytes before what was asked for",
                                                                   doing, part.size() - reply.into_bytes));
                     },
                     .doing = doing});
  }
  return client_.perform(calls, plan.connection_count);
}

Result<std::vector<ObjectInfo>> S3Store::list(std::string_view prefix) {
  const std::string doing = fmt::format("list {}", uri_of(prefix));
  const std::size_t prefix_bytes = object_of("").size();
  std::vector<ObjectInfo> objects;
  std::string token;
  for (int pages = 0; pages < object_pages_max; ++pages) {
    S3Request request{
        .method = "GET",
        .object = {},
        .query = {{"list-type", "2"}, {"max-keys", std::to_string(tuning_.page_keys)}, {"prefix", object_of(prefix)}}};
    if (!token.empty()) request.query.emplace_back("continuation-token", token);
    auto page = TRY(client_.send(doing, std::move(request)).and_then([&](const HttpReply& reply) {
      return parse_page(reply.body, doing, prefix_bytes);
    }));
    std::move(page.objects.begin(), page.objects.end(), std::back_inserter(objects));
    token = page.next_token;
    if (!page.is_last && token.empty()) {
      return fail(ErrorKind::unavailable,
                  fmt::format("{}: the server says that there are more objects, and not how to ask for them", doing));
    }
    if (page.is_last) {
      std::ranges::sort(objects, {}, &ObjectInfo::key);
      return objects;
    }
  }
  return fail(ErrorKind::unavailable, fmt::format("{}: the list does not end", doing));
}

Result<void> S3Store::remove(std::string_view key, const std::stop_token& stop) {
  TRY(check_key(key));
  const S3Call call{.make = [&]() -> S3Request { return {.method = "DELETE", .object = object_of(key)}; },
                    .accept = [](const HttpReply&) -> Result<void> { return {}; },
                    .doing = fmt::format("remove {}", uri_of(key)),
                    .refuse = [](const HttpReply& reply, const Error& error) -> Result<void> {
                      // A missing object counts as removed; a missing bucket is an error.
                      if (reply.status == not_found && xml::text_of(reply.body, "Code") != "NoSuchBucket") return {};
                      return tl::unexpected(error);
                    }};
  return client_.perform({&call, 1}, 1, OnError::cut, stop);
}

Result<void> S3Store::remove_all(std::span<const std::string> keys, std::stop_token stop) {
  for (const std::string& key : keys) {
    TRY(check_key(key));
  }
  if (has_bulk_removal_ && keys.size() > 1) {
    const auto removed = TRY(remove_by_request(keys, stop));
    if (removed) return {};
    has_bulk_removal_ = false;
  }
  return Store::remove_all(keys, std::move(stop));
}

Result<bool> S3Store::remove_by_request(std::span<const std::string> keys, const std::stop_token& stop) {
  std::vector<std::string> bodies;
  for (std::size_t begin = 0; begin < keys.size(); begin += removed_keys_max) {
    std::vector<std::string> objects;
    for (const std::string& key : keys.subspan(begin, std::min(removed_keys_max, keys.size() - begin)))
      objects.push_back(object_of(key));
    bodies.push_back(removal_text(objects));
  }
  if (!content_md5({})) return false;  // S3 wants the MD5 of this request.
  bool is_known = true;
  std::vector<S3Call> calls;
  const std::string doing = fmt::format("remove {} objects under {}", keys.size(), uri_of(""));
  for (const std::string& body : bodies) {
    calls.push_back({.make = [&body]() -> S3Request {
                       const auto bytes = std::as_bytes(std::span{body});
                       return {.method = "POST",
                               .object = {},
                               .query = {{"delete", ""}},
                               .headers = {{"content-md5", content_md5({&bytes, 1}).value()}},
                               .body = {bytes},
                               .payload_hash = sha256_text(body)};
                     },
                     .accept = [&](const HttpReply& reply) { return check_removal(reply, doing, client_.config()); },
                     .doing = doing,
                     .refuse = [&](const HttpReply& reply, const Error& error) -> Result<void> {
                       if (is_without_removal(reply)) is_known = false;
                       return tl::unexpected(error);
                     }});
  }
  const std::size_t connection_count = make_read_plan(0, tuning_.transfer).connection_count;
  const auto done = client_.perform(calls, connection_count, OnError::drain, stop);
  if (!done && !is_known) return false;
  return done.map([] { return true; });
}

Result<void> S3Store::remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) {
  const std::string prefix = object_of("");
  const auto uploads = list_uploads(client_, prefix, fmt::format("list the unfinished uploads under {}", uri_of("")));
  if (!uploads) {
    const ErrorKind kind = uploads.error().kind;
    if (kind != ErrorKind::forbidden && kind != ErrorKind::invalid) return tl::unexpected(uploads.error());
    logging::warn("unfinished uploads are left to the bucket's lifecycle rules", {{"error", uploads.error().message}});
    return {};
  }
  for (const S3OpenUpload& upload : orphans(*uploads, prefix, client_.now() - tuning_.orphan_age_min, is_abandoned)) {
    abort_upload(client_, upload.object, upload.id, fmt::format("remove what is left of {}", upload.object));
  }
  return {};
}

}  // namespace trainyard::storage

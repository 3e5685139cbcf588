#include "storage/s3_orphans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/time_text.hpp"
#include "common/try.hpp"
#include "storage/store.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

// A page has a thousand uploads; a list with more pages is a fault of the server.
constexpr int upload_pages_max = 1'000;

std::optional<Time> time_of(const std::string& text) {
  const auto time = parse_rfc3339(text);
  return time ? std::optional{*time} : std::nullopt;
}

}  // namespace

Result<S3OpenUploads> parse_uploads(std::string_view body, std::string_view doing) {
  const auto result = xml::element(body, "ListMultipartUploadsResult");
  if (!result) return fail(ErrorKind::invalid, fmt::format("{}: the reply is no list of uploads", doing));
  S3OpenUploads page;
  for (const std::string_view upload : xml::elements(*result, "Upload")) {
    page.uploads.push_back({.object = xml::text_of(upload, "Key"),
                            .id = xml::text_of(upload, "UploadId"),
                            .began = time_of(xml::text_of(upload, "Initiated"))});
  }
  page.is_last = xml::text_of(*result, "IsTruncated") != "true";
  page.next_key = xml::text_of(*result, "NextKeyMarker");
  page.next_id = xml::text_of(*result, "NextUploadIdMarker");
  return page;
}

Result<std::vector<S3OpenUpload>> list_uploads(S3Client& client, const std::string& prefix, const std::string& doing) {
  std::vector<S3OpenUpload> uploads;
  S3OpenUploads page;
  for (int pages = 0; pages < upload_pages_max; ++pages) {
    S3Request request{.method = "GET", .object = {}, .query = {{"uploads", ""}, {"prefix", prefix}}};
    if (!page.next_key.empty()) request.query.emplace_back("key-marker", page.next_key);
    if (!page.next_id.empty()) request.query.emplace_back("upload-id-marker", page.next_id);
    page = TRY(client.send(doing, std::move(request)).and_then([&](const HttpReply& reply) {
      return parse_uploads(reply.body, doing);
    }));
    std::move(page.uploads.begin(), page.uploads.end(), std::back_inserter(uploads));
    if (page.is_last || page.next_key.empty()) return uploads;
  }
  return fail(ErrorKind::unavailable, fmt::format("{}: the list does not end", doing));
}

std::vector<S3OpenUpload> orphans(const std::vector<S3OpenUpload>& uploads, std::string_view prefix, Time began_before,
                                  const std::function<bool(std::string_view folder)>& is_abandoned) {
  std::vector<S3OpenUpload> found;
  std::copy_if(uploads.begin(), uploads.end(), std::back_inserter(found), [&](const S3OpenUpload& upload) {
    // Some servers also list uploads with other prefixes.
    if (!upload.object.starts_with(prefix) || !upload.began || *upload.began >= began_before) return false;
    const std::string_view key = std::string_view{upload.object}.substr(prefix.size());
    const std::size_t slash = key.rfind('/');
    return slash != std::string_view::npos && check_key(key) && is_abandoned(key.substr(0, slash));
  });
  return found;
}

}  // namespace trainyard::storage

#include "storage/uri.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "storage/key.hpp"

namespace trainyard::storage {
namespace {

constexpr std::string_view file_scheme = "file://";
constexpr std::string_view s3_scheme = "s3://";

std::string_view without_slashes(std::string_view text) {
  while (text.starts_with('/')) text.remove_prefix(1);
  while (text.ends_with('/')) text.remove_suffix(1);
  return text;
}

bool is_bucket_name(std::string_view name) {
  // S3's own rule for new buckets, but for '_' and capitals, which old buckets and other servers have.
  return name.size() >= 3 && name.size() <= 255 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_';
         });
}

Result<Uri> parse_file_uri(std::string_view text) {
  const std::string_view path = text.substr(file_scheme.size());
  if (!path.starts_with('/')) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not a folder's URI: write file:///absolute/folder, with three slashes", text));
  }
  const std::string_view folder = without_slashes(path);
  if (folder.empty()) return fail(ErrorKind::invalid, fmt::format("{} names the root folder: name one below it", text));
  // Hidden folders are the user's choice here, so only what could lead elsewhere is refused.
  if (fmt::format("/{}/", folder).find("/../") != std::string::npos) {
    return fail(ErrorKind::invalid, fmt::format("{} holds '..': write the folder's plain absolute path", text));
  }
  return Uri{.scheme = Scheme::file, .bucket = {}, .path = fmt::format("/{}", folder)};
}

Result<Uri> parse_s3_uri(std::string_view text) {
  const std::string_view rest = text.substr(s3_scheme.size());
  const std::size_t slash = rest.find('/');
  const std::string_view bucket = rest.substr(0, slash);
  if (!is_bucket_name(bucket)) {
    return fail(ErrorKind::invalid, fmt::format("{} names no bucket: write s3://bucket/prefix", text));
  }
  const std::string_view prefix =
      slash == std::string_view::npos ? std::string_view{} : without_slashes(rest.substr(slash));
  if (!prefix.empty()) {
    if (auto good = check_key(prefix); !good) return fail(text, good.error());
  }
  return Uri{.scheme = Scheme::s3, .bucket = std::string{bucket}, .path = std::string{prefix}};
}

}  // namespace

Result<Uri> parse_uri(std::string_view text) {
  if (text.starts_with(file_scheme)) return parse_file_uri(text);
  if (text.starts_with(s3_scheme)) return parse_s3_uri(text);
  return fail(ErrorKind::invalid,
              fmt::format("'{}' is not a storage URI: write file:///absolute/folder or s3://bucket/prefix", text));
}

std::string to_string(const Uri& uri) {
  if (uri.scheme == Scheme::file) return fmt::format("file://{}", uri.path);
  return uri.path.empty() ? fmt::format("s3://{}", uri.bucket) : fmt::format("s3://{}/{}", uri.bucket, uri.path);
}

}  // namespace trainyard::storage

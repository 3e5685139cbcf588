#include "storage/uri.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "storage/store.hpp"

namespace trainyard::storage {
namespace {

constexpr std::string_view file_scheme = "file://";
constexpr std::string_view command_scheme = "command:";

struct BucketScheme {
  std::string_view begin;
  Scheme scheme;
  std::string_view place;  // The cloud's word: bucket or container.
};
constexpr BucketScheme bucket_schemes[] = {
    {"s3://", Scheme::s3, "bucket"}, {"gs://", Scheme::gs, "bucket"}, {"az://", Scheme::az, "container"}};

std::string_view without_slashes(std::string_view text) {
  while (text.starts_with('/')) text.remove_prefix(1);
  while (text.ends_with('/')) text.remove_suffix(1);
  return text;
}

/// The fault of a bucket's name; empty if it has none. The rule is S3's own for new buckets, and also allows '_' and
/// capitals, which old buckets and other servers have.
std::string bucket_fault(std::string_view name, std::string_view place) {
  if (name.size() < 3) return fmt::format("'{}' is too short for a {}: at least 3 characters", name, place);
  if (name.size() > 255) return fmt::format("it is too long for a {}: at most 255 characters", place);
  const bool is_good = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
  return is_good ? "" : fmt::format("'{}' is no {}: only letters, digits, '-', '.' and '_'", name, place);
}

Result<Uri> parse_file_uri(std::string_view text) {
  const std::string_view path = text.substr(file_scheme.size());
  if (!path.starts_with('/')) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not a folder's URI: write file:///absolute/folder, with three slashes", text));
  }
  const std::string_view folder = without_slashes(path);
  if (folder.empty()) return fail(ErrorKind::invalid, fmt::format("{} names the root folder: name one below it", text));
  // Hidden folders are allowed, unlike in keys. Only ".." is refused, which could lead elsewhere.
  if (fmt::format("/{}/", folder).find("/../") != std::string::npos) {
    return fail(ErrorKind::invalid, fmt::format("{} holds '..': write the folder's plain absolute path", text));
  }
  return Uri{.scheme = Scheme::file, .bucket = {}, .path = fmt::format("/{}", folder)};
}

Result<Uri> parse_bucket_uri(std::string_view text, const BucketScheme& kind) {
  const std::string_view rest = text.substr(kind.begin.size());
  const std::size_t slash = rest.find('/');
  const std::string_view bucket = rest.substr(0, slash);
  if (bucket.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("{} names no {}: write {}{}/prefix", text, kind.place, kind.begin, kind.place));
  }
  if (const std::string fault = bucket_fault(bucket, kind.place); !fault.empty())
    return fail(ErrorKind::invalid, fmt::format("{}: {}; write {}{}/prefix", text, fault, kind.begin, kind.place));
  const std::string_view prefix =
      slash == std::string_view::npos ? std::string_view{} : without_slashes(rest.substr(slash));
  if (!prefix.empty()) {
    if (auto good = check_key(prefix); !good) return fail(text, good.error());
  }
  return Uri{.scheme = kind.scheme, .bucket = std::string{bucket}, .path = std::string{prefix}};
}

Result<Uri> parse_web_uri(std::string_view text) {
  const std::size_t host_begin = text.find("://") + 3;
  const std::size_t host_end = std::min(text.find_first_of("/?#", host_begin), text.size());
  const std::string_view host = text.substr(host_begin, host_end - host_begin);
  // The text before an '@' or behind a '?' could hold a secret, so the message does not repeat it.
  if (host.find('@') != std::string_view::npos || text.find_first_of("?#") != std::string_view::npos) {
    return fail(ErrorKind::invalid,
                "the web address holds a user name, a query or a fragment: write https://host/folder");
  }
  const bool is_plain = std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == ':' || c == '[' || c == ']' || c == '_';
  });
  const bool has_spaces = std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7f; });
  const std::string_view folder = without_slashes(text.substr(host_end));
  const bool goes_up = fmt::format("/{}/", folder).find("/../") != std::string::npos;
  if (host.empty() || !is_plain || has_spaces || goes_up) {
    return fail(ErrorKind::invalid, fmt::format("{} is not a folder on a web server: write https://host/folder", text));
  }
  return Uri{.scheme = Scheme::web,
             .bucket = {},
             .path = std::string{folder},
             .origin = std::string{text.substr(0, host_end)}};
}

Result<Uri> parse_command_uri(std::string_view text) {
  std::string_view program = text.substr(command_scheme.size());
  if (program.starts_with("///")) program.remove_prefix(2);
  constexpr std::string_view mark = "?folder=";
  const std::size_t end = program.find(mark);
  const std::string_view folder =
      end == std::string_view::npos ? std::string_view{} : program.substr(end + mark.size());
  program = program.substr(0, end);
  if (!program.starts_with('/') || program.starts_with("//") || program.ends_with('/') || !folder.starts_with('/')) {
    return fail(ErrorKind::invalid,
                fmt::format("{} names no program and folder: write command:/program?folder=/absolute/folder", text));
  }
  return parse_file_uri(fmt::format("{}{}", file_scheme, folder)).map([&](Uri uri) {
    uri.scheme = Scheme::command;
    uri.program = program;
    return uri;
  });
}

}  // namespace

Result<Uri> parse_uri(std::string_view text) {
  if (text.starts_with(file_scheme)) return parse_file_uri(text);
  for (const BucketScheme& kind : bucket_schemes) {
    if (text.starts_with(kind.begin)) return parse_bucket_uri(text, kind);
  }
  if (text.starts_with("https://") || text.starts_with("http://")) return parse_web_uri(text);
  if (text.starts_with(command_scheme)) return parse_command_uri(text);
  if (text.starts_with('/')) {
    return fail(ErrorKind::invalid, fmt::format("'{}' is a folder and not a URI: write file://{}", text, text));
  }
  return fail(ErrorKind::invalid, fmt::format("'{}' is not a storage URI: write file:///absolute/folder, "
                                              "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, "
                                              "command:/program?folder=/absolute/folder, or https://host/folder to "
                                              "read only",
                                              text));
}

std::string to_string(const Uri& uri) {
  if (uri.scheme == Scheme::file) return fmt::format("file://{}", uri.path);
  if (uri.scheme == Scheme::command) return fmt::format("command:{}?folder={}", uri.program, uri.path);
  std::string place = uri.origin;
  for (const BucketScheme& kind : bucket_schemes) {
    if (uri.scheme == kind.scheme) place = fmt::format("{}{}", kind.begin, uri.bucket);
  }
  return uri.path.empty() ? place : fmt::format("{}/{}", place, uri.path);
}

Error read_only(std::string_view uri) {
  return {.kind = ErrorKind::invalid,
          .message = fmt::format("{} can only be read: name an s3:// or file:// folder to write to", uri),
          .retry_after = {}};
}

Result<ServerAddress> parse_server_address(std::string_view name, std::string_view text) {
  ServerAddress address{.scheme = "http", .authority = {}, .path = {}};
  if (const std::size_t mark = text.find("://"); mark != std::string_view::npos) {
    address.scheme = text.substr(0, mark);
    text.remove_prefix(mark + 3);
  }
  const std::size_t slash = std::min(text.find('/'), text.size());
  address.authority = text.substr(0, slash);
  text.remove_prefix(slash);
  while (text.starts_with('/')) text.remove_prefix(1);
  while (text.ends_with('/')) text.remove_suffix(1);
  address.path = text;
  const auto is_plain = [](std::string_view part) {
    return std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '.' || c == ':' || c == '[' || c == ']' || c == '_' || c == '/';
    });
  };
  const bool is_known = address.scheme == "http" || address.scheme == "https";
  if (!is_known || address.authority.empty() || !is_plain(address.authority) || !is_plain(address.path)) {
    return fail(ErrorKind::invalid, fmt::format("{} is no address: write http://host:port or https://host", name));
  }
  return address;
}

}  // namespace trainyard::storage

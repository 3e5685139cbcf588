#include "storage/web_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/server_error.hpp"
#include "storage/sigv4.hpp"
#include "storage/store.hpp"

namespace trainyard::storage {
namespace {

constexpr std::string_view index_key = "index.txt";

Error error_of(const HttpReply& reply, std::string_view doing) {
  return {kind_of_status(reply.status), fmt::format("{}: the server answered {}", doing, reply.status),
          retry_after_of(reply)};
}

HttpCall call_of(std::string doing, std::function<HttpRequest()> make,
                 std::function<Result<void>(const HttpReply&)> accept) {
  return {.doing = doing,
          .make = std::move(make),
          .accept = [doing, accept = std::move(accept)](const HttpReply& reply) -> Result<void> {
            if (reply.status / 100 == 2) return accept(reply);
            return tl::unexpected(error_of(reply, doing));
          }};
}

// True when `reply` is the part that begins at `first`. A server without ranges sends the whole file.
Result<void> check_part(const HttpReply& reply, std::uint64_t first, std::size_t bytes, std::string_view doing) {
  if (reply.status == http_ok && first > 0)
    return fail(ErrorKind::invalid,
                fmt::format("{}: the server sends all of it when it is asked for a part: it must know Range", doing));
  const std::string range = reply.header("content-range");
  if (reply.status != http_ok && !range.starts_with(fmt::format("bytes {}-", first)))
    return fail(ErrorKind::corrupt, fmt::format("{}: the server sent a part that was not requested", doing));
  if (reply.into_bytes == bytes) return {};
  return fail(ErrorKind::corrupt,
              fmt::format("{}: it ends {} bytes before what was asked for", doing, bytes - reply.into_bytes));
}

}  // namespace

WebStore::WebStore(Uri uri, WebTuning tuning) : uri_{std::move(uri)}, tuning_{std::move(tuning)}, http_{tuning_.http} {}

std::string WebStore::uri_of(std::string_view key) const {
  return fmt::format("{}/{}", to_string(uri_), key);
}

HttpRequest WebStore::request(std::string method, std::string_view key) const {
  return {.method = std::move(method),
          .url = fmt::format("{}/{}", to_string(uri_), percent_encoded(key, true)),
          .follows_redirects = true};
}

Result<void> WebStore::probe() {
  return read_index("").map([](const auto&) {});
}

Result<void> WebStore::put(std::string_view, Pieces, const PutOptions&) {
  return tl::unexpected(read_only(uri_of("")));
}

Result<void> WebStore::remove(std::string_view, const std::stop_token&) {
  return tl::unexpected(read_only(uri_of("")));
}

Result<std::vector<std::byte>> WebStore::get(std::string_view key) {
  TRY(check_key(key));
  std::vector<std::byte> content;
  const HttpCall call = call_of(
      fmt::format("get {}", uri_of(key)), [&] { return request("GET", key); },
      [&](const HttpReply& reply) -> Result<void> {
        const auto bytes = std::as_bytes(std::span{reply.body});
        content.assign(bytes.begin(), bytes.end());
        return {};
      });
  return http_.perform({&call, 1}, 1).map([&] { return std::move(content); });
}

Result<void> WebStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  TRY(check_key(key));
  const std::string doing = fmt::format("get {}", uri_of(key));
  std::vector<HttpCall> calls;
  const TransferPlan plan = make_read_plan(into.size(), tuning_.transfer);
  for (std::uint64_t begin = 0; begin < into.size(); begin += plan.part_bytes) {
    const auto part = into.subspan(begin, std::min<std::uint64_t>(plan.part_bytes, into.size() - begin));
    const std::uint64_t first = offset + begin;
    calls.push_back(call_of(
        doing,
        [this, key, part, first] {
          HttpRequest asked = request("GET", key);
          asked.headers["range"] = fmt::format("bytes={}-{}", first, first + part.size() - 1);
          asked.into = part;
          return asked;
        },
        [&doing, part, first](const HttpReply& reply) { return check_part(reply, first, part.size(), doing); }));
  }
  return http_.perform(calls, plan.connection_count);
}

Result<std::vector<ObjectInfo>> WebStore::read_index(std::string_view prefix) {
  auto text = get_text(*this, index_key);
  if (!text && text.error().kind == ErrorKind::not_found) {
    return fail(ErrorKind::not_found,
                fmt::format("{}. A web server tells no list of its files: put one there, with one "
                            "file's path a line",
                            text.error().message));
  }
  TRY(text);
  auto objects = parse_index(*text);
  if (!objects) return fail(uri_of(index_key), objects.error());
  std::erase_if(*objects, [&](const ObjectInfo& object) { return !object.key.starts_with(prefix); });
  return objects;
}

Result<std::vector<ObjectInfo>> WebStore::list(std::string_view prefix) {
  auto objects = TRY(read_index(prefix));
  std::vector<HttpCall> calls;
  for (ObjectInfo& object : objects) {
    const std::string doing = fmt::format("look for {}, which {} names", uri_of(object.key), index_key);
    calls.push_back(call_of(
        doing, [this, &object] { return request("HEAD", object.key); },
        [&object, doing](const HttpReply& reply) -> Result<void> {
          const auto bytes = parse_number<std::uint64_t>(reply.header("content-length"));
          if (!bytes) return fail(ErrorKind::invalid, fmt::format("{}: the server does not give its length", doing));
          object.bytes = *bytes;
          return {};
        }));
  }
  const std::size_t connection_count = make_read_plan(0, tuning_.transfer).connection_count;
  return http_.perform(calls, connection_count).map([&] { return std::move(objects); });
}

Result<std::vector<ObjectInfo>> parse_index(std::string_view text) {
  std::vector<ObjectInfo> objects;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    TRY(check_key(line));
    objects.push_back({.key = std::string{line}, .bytes = 0});
  }
  std::ranges::sort(objects, {}, &ObjectInfo::key);
  objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
  return objects;
}

}  // namespace trainyard::storage

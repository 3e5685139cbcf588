#include "operator/kube/watch_decoder.hpp"

#include <fmt/format.h>

#include "common/text.hpp"
#include "operator/kube/reply.hpp"

namespace trainyard::kube {
namespace {

std::optional<WatchEventType> parse_type(const std::string& type) {
  if (type == "ADDED") return WatchEventType::added;
  if (type == "MODIFIED") return WatchEventType::modified;
  if (type == "DELETED") return WatchEventType::deleted;
  if (type == "BOOKMARK") return WatchEventType::bookmark;
  return std::nullopt;
}

}  // namespace

WatchDecoder::WatchDecoder(std::string tried, std::size_t line_bytes_max)
    : tried_{std::move(tried)}, line_bytes_max_{line_bytes_max} {}

WatchDecoder::Decoded WatchDecoder::push(std::string_view bytes) {
  Decoded decoded;
  while (!decoded.error) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    partial_line_ += bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (!partial_line_.empty()) decode_line(partial_line_, decoded);
    partial_line_.clear();
  }
  if (decoded.error) return decoded;
  partial_line_ += bytes;
  if (partial_line_.size() > line_bytes_max_) {
    decoded.error = Error{.kind = ErrorKind::corrupt,
                          .message = fmt::format("{}: an event is longer than {} bytes", tried_, line_bytes_max_),
                          .retry_after = {}};
  }
  return decoded;
}

void WatchDecoder::decode_line(std::string_view line, Decoded& decoded) const {
  auto event = parse_object(line);
  const auto type = event.is_object() ? event.find("type") : event.end();
  const auto object = event.is_object() ? event.find("object") : event.end();
  if (type == event.end() || !type->is_string() || object == event.end() || !object->is_object()) {
    decoded.error =
        Error{.kind = ErrorKind::corrupt,
              .message = fmt::format("{}: an event is not the JSON of an event: {}", tried_, keep_beginning(line, 200)),
              .retry_after = {}};
    return;
  }
  if (*type == "ERROR") {
    decoded.error = error_of_status(tried_, *object);
  } else if (const auto known = parse_type(type->get<std::string>())) {
    decoded.events.push_back({*known, std::move(*object)});
  } else {
    decoded.error = Error{.kind = ErrorKind::corrupt,
                          .message = fmt::format("{}: an event has the unknown type {}", tried_, type->dump()),
                          .retry_after = {}};
  }
}

}  // namespace trainyard::kube

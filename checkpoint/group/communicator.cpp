#include "checkpoint/group/communicator.hpp"

#include <algorithm>

namespace trainyard::checkpoint {
namespace {

std::uint64_t bytes_of(const BroadcastPart& part) {
  std::uint64_t bytes = 0;
  for (const std::span<std::byte>& span : part.spans) bytes += span.size();
  return bytes;
}

// Calls `visit` with the bytes of the part's spans that belong to the message, in order.
template <typename Visit>
void visit_spans(const BroadcastPart& part, const Message& message, const Visit& visit) {
  std::uint64_t at = 0;
  for (const std::span<std::byte>& span : part.spans) {
    const std::uint64_t from = std::max(message.begin, at);
    const std::uint64_t to = std::min(message.end, at + span.size());
    if (from < to) visit(span.subspan(from - at, to - from));
    at += span.size();
    if (at >= message.end) return;
  }
}

}  // namespace

std::vector<Message> messages_of(std::span<const BroadcastPart> parts, std::uint64_t bytes_max) {
  std::vector<std::uint64_t> sizes;
  for (const BroadcastPart& part : parts) sizes.push_back(bytes_of(part));
  const std::uint64_t longest = sizes.empty() ? 0 : std::ranges::max(sizes);
  std::vector<Message> messages;
  for (std::uint64_t begin = 0; begin < longest; begin += bytes_max) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (begin < sizes[part])
        messages.push_back({.part = part, .begin = begin, .end = std::min(sizes[part], begin + bytes_max)});
    }
  }
  return messages;
}

void copy_out(const BroadcastPart& part, const Message& message, std::span<std::byte> to) {
  visit_spans(part, message, [&](std::span<std::byte> span) {
    std::ranges::copy(span, to.begin());
    to = to.subspan(span.size());
  });
}

void copy_in(const BroadcastPart& part, const Message& message, std::span<const std::byte> from) {
  visit_spans(part, message, [&](std::span<std::byte> span) {
    std::ranges::copy(from.first(span.size()), span.begin());
    from = from.subspan(span.size());
  });
}

}  // namespace trainyard::checkpoint

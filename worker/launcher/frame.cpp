#include "worker/launcher/frame.hpp"

#include <fmt/format.h>

#include "common/check.hpp"

namespace trainyard::launcher {
namespace {

constexpr std::size_t header_bytes = 4;

}  // namespace

std::string make_frame(std::string_view payload) {
  check(payload.size() <= frame_bytes_max, "a message fits into a frame");
  std::string frame;
  frame.reserve(header_bytes + payload.size());
  for (int shift = 24; shift >= 0; shift -= 8)
    frame.push_back(static_cast<char>((payload.size() >> static_cast<unsigned>(shift)) & 0xFFU));
  frame += payload;
  return frame;
}

Result<std::vector<std::string>> FrameReader::feed(std::string_view bytes) {
  rest_ += bytes;
  std::vector<std::string> payloads;
  std::size_t position = 0;
  while (rest_.size() - position >= header_bytes) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < header_bytes; ++i) size = size << 8U | static_cast<unsigned char>(rest_[position + i]);
    if (size > frame_bytes_max) {
      return fail(ErrorKind::invalid, fmt::format("a message of {} bytes, but {} are the most", size, frame_bytes_max));
    }
    if (rest_.size() - position - header_bytes < size) break;
    payloads.push_back(rest_.substr(position + header_bytes, size));
    position += header_bytes + size;
  }
  rest_.erase(0, position);
  return payloads;
}

}  // namespace trainyard::launcher

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

/// Messages on a TCP stream: four bytes of length, the most significant byte first, then the payload.
namespace trainyard::launcher {

inline constexpr std::size_t frame_bytes_max = 16'384;

/// Needs payload.size() <= frame_bytes_max.
[[nodiscard]] std::string make_frame(std::string_view payload);

/// Assembles frames from pieces of any size.
class FrameReader {
 public:
  /// Returns the payloads that `bytes` completes. ErrorKind::invalid for a frame that is too long: the other side is
  /// not a launcher.
  [[nodiscard]] Result<std::vector<std::string>> feed(std::string_view bytes);

 private:
  std::string rest_;
};

}  // namespace trainyard::launcher

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"

/// Images as bytes. Pure.

namespace trainyard::snapshot {

/// One image, or several of one size, in torch's order [image, channel, row, column].
struct Planes {
  std::int64_t images = 1;
  std::int64_t channels = 1;  ///< 1: gray. 3: red, green, blue.
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> bytes;  ///< images x channels x height x width bytes.
  bool operator==(const Planes&) const = default;
};

/// Pixels row by row, the channels of each pixel one after the other.
struct Picture {
  std::int64_t channels = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;  ///< height x width x channels bytes.
  bool operator==(const Picture&) const = default;
};

/// The images of `planes` in order, eight side by side in a row, with two black pixels between.
[[nodiscard]] Picture lay_out(const Planes& planes);

/// A PNG file with 8 bits a channel. ErrorKind::internal with libpng's message when libpng refuses.
[[nodiscard]] Result<std::string> encode_png(const Picture& picture);

}  // namespace trainyard::snapshot

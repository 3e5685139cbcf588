#pragma once

#include <cstdint>
#include <string>

namespace trainyard::checkpoint {

/// The `count` lowest bytes of `number`, lowest first.
[[nodiscard]] inline std::string little_endian(std::uint64_t number, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(number >> (8 * i) & 0xff));
  return bytes;
}

}  // namespace trainyard::checkpoint

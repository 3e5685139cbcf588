#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::checkpoint {

/// The text of `object` with a checksum of itself in the field "crc32c", so that a changed bit is noticed.
[[nodiscard]] std::string seal(nlohmann::json object);

/// The longest sealed text. Longer texts are not parsed: parsing takes several times as much memory, and the server
/// that gives the text is not trusted.
inline constexpr std::uint64_t sealed_bytes_max = std::uint64_t{64} << 20;

/// The object that seal() wrote, without the checksum. ErrorKind::corrupt for anything else.
[[nodiscard]] Result<nlohmann::json> unseal(std::string_view text);

/// True when `text` is only a part of what seal() wrote, because its writer never finished.
[[nodiscard]] bool is_torn(std::string_view text);

/// The result of `read`; ErrorKind::corrupt when `read` asks for a field that is missing or has another type. `what`
/// begins the message.
template <typename Read>
[[nodiscard]] auto read_fields(std::string_view what, const Read& read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::corrupt, std::string{what} + ": " + error.what());
  }
}

}  // namespace trainyard::checkpoint

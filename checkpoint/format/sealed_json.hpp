#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::checkpoint {

/// The text of `object` with its own checksum in the field "crc32c": for small objects that must not be believed once a
/// bit of them has changed.
[[nodiscard]] std::string seal(nlohmann::json object);

/// The longest sealed text. Longer ones are not parsed: that would take several times as much memory, and the server
/// that gives the text is not trusted.
inline constexpr std::uint64_t sealed_bytes_max = std::uint64_t{64} << 20;

/// The object that seal() wrote, without the checksum. ErrorKind::corrupt for anything else.
[[nodiscard]] Result<nlohmann::json> unseal(std::string_view text);

/// Whether `text` is less than seal() wrote, and not something else: its writer never finished.
[[nodiscard]] bool is_torn(std::string_view text);

/// What `read` returns; ErrorKind::corrupt where a field that it asks for is missing or of another type.
template <typename Read>
[[nodiscard]] auto read_fields(std::string_view what, const Read& read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::corrupt, std::string{what} + ": " + error.what());
  }
}

}  // namespace trainyard::checkpoint

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::storage {

/// CRC-32C (Castagnoli) of `bytes`, continued from `before`, which is the CRC of the bytes before them. Uses the CPU's
/// instruction where there is one (x86-64: SSE 4.2; arm64: CRC32). Source: RFC 3720, B.4.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

[[nodiscard]] std::uint32_t crc32c(std::string_view text);

/// The CRC of two runs of bytes in a row, from the CRC of each: `first`, and `second` of `second_bytes` bytes. Takes
/// about a microsecond for any length.
[[nodiscard]] std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

/// crc32c() computed by a table, on any CPU.
[[nodiscard]] std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// `crc` in eight hexadecimal digits.
[[nodiscard]] std::string crc32c_text(std::uint32_t crc);

}  // namespace trainyard::storage

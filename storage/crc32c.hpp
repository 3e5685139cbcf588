#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::storage {

/// CRC-32C (Castagnoli) of what `before` is the CRC of, followed by `bytes`. Uses the instruction of x86-64 (SSE 4.2)
/// and of arm64 (CRC32) where the CPU has it. Source: RFC 3720, B.4.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

[[nodiscard]] std::uint32_t crc32c(std::string_view text);

/// The CRC of what `first` is the CRC of, followed by the `second_bytes` bytes that `second` is the CRC of. Takes about
/// a microsecond, however many they are.
[[nodiscard]] std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

/// crc32c() by a table, for any CPU.
[[nodiscard]] std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// Eight hexadecimal digits.
[[nodiscard]] std::string crc32c_text(std::uint32_t crc);

}  // namespace trainyard::storage

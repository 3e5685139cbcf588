#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainyard {

inline constexpr std::uint64_t word_hash_start = 0xcbf29ce484222325ULL;

/// The 64-bit hash of `bytes`: FNV-1a over words of eight bytes. `hash` is word_hash_start or the hash of the bytes
/// before. An attacker can make collisions.
[[nodiscard]] std::uint64_t word_hash(std::uint64_t hash, std::span<const std::byte> bytes);

}  // namespace trainyard

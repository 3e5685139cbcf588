#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainyard {

inline constexpr std::uint64_t word_hash_start = 0xcbf29ce484222325ULL;

/// A 64-bit hash of the bytes before, `hash`, and of `bytes`: FNV-1a over words of eight bytes. Begins with
/// word_hash_start. Not for what an attacker chooses.
[[nodiscard]] std::uint64_t word_hash(std::uint64_t hash, std::span<const std::byte> bytes);

}  // namespace trainyard

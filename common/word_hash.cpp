#include "common/word_hash.hpp"

#include <cstring>

namespace trainyard {
namespace {

constexpr std::uint64_t fnv_prime = 0x100000001b3ULL;

}  // namespace

std::uint64_t word_hash(std::uint64_t hash, std::span<const std::byte> bytes) {
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    hash = (hash ^ word) * fnv_prime;
    // A multiplication carries only upwards: without the shift the high bytes of a word would not reach the low bits.
    hash ^= hash >> 32;
  }
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * fnv_prime;
  return hash;
}

}  // namespace trainyard

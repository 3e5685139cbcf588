#include "storage/crc32c.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#define TRAINYARD_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define TRAINYARD_CRC_TARGET __attribute__((target("+crc")))
#endif

namespace trainyard::storage {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41, reflected

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: the CRC of byte b followed by k zero bytes, so that eight bytes are taken at once.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

inline std::uint64_t load_eight(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Polynomials over two elements modulo the CRC's; the highest bit is the coefficient of x^0.
constexpr std::uint32_t one = 0x80000000;
constexpr std::uint32_t x_to_the_8 = one >> 8;

std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) sum ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : 0);
  }
  return sum;
}

#if defined(__x86_64__)
using Register = std::uint64_t;  // As wide as the instruction's operand: a narrower one costs a move each time.

bool has_instruction() {
  return __builtin_cpu_supports("sse4.2") != 0;
}
TRAINYARD_CRC_TARGET inline Register take_eight(Register crc, std::uint64_t word) {
  return _mm_crc32_u64(crc, word);
}
TRAINYARD_CRC_TARGET inline std::uint32_t take_one(std::uint32_t crc, std::uint8_t byte) {
  return _mm_crc32_u8(crc, byte);
}
#elif defined(__aarch64__)
using Register = std::uint32_t;

// Optional in ARMv8.0, and part of ARMv8.1.
bool has_instruction() {
  return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
TRAINYARD_CRC_TARGET inline Register take_eight(Register crc, std::uint64_t word) {
  return __crc32cd(crc, word);
}
TRAINYARD_CRC_TARGET inline std::uint32_t take_one(std::uint32_t crc, std::uint8_t byte) {
  return __crc32cb(crc, byte);
}
#endif

#if defined(TRAINYARD_CRC_TARGET)
// The instruction's result comes after three cycles, but one can begin in each: three lanes keep it busy. Shorter ones
// are not worth the joining.
constexpr std::size_t lane_bytes_min = 4096;

TRAINYARD_CRC_TARGET std::uint32_t crc32c_hardware(std::span<const std::byte> bytes, std::uint32_t before) {
  const std::size_t lane_bytes = bytes.size() / 3 / 8 * 8;
  if (lane_bytes >= lane_bytes_min) {
    Register first = ~before;
    Register second = 0xffffffff;
    Register third = 0xffffffff;
    for (const std::byte* at = bytes.data(); at != bytes.data() + lane_bytes; at += 8) {
      first = take_eight(first, load_eight(at));
      second = take_eight(second, load_eight(at + lane_bytes));
      third = take_eight(third, load_eight(at + 2 * lane_bytes));
    }
    before = crc32c_joined(~static_cast<std::uint32_t>(first), ~static_cast<std::uint32_t>(second), lane_bytes);
    before = crc32c_joined(before, ~static_cast<std::uint32_t>(third), lane_bytes);
    bytes = bytes.subspan(3 * lane_bytes);
  }
  Register crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) crc = take_eight(crc, load_eight(at));
  auto crc32 = static_cast<std::uint32_t>(crc);
  for (; left > 0; ++at, --left) crc32 = take_one(crc32, std::to_integer<std::uint8_t>(*at));
  return ~crc32;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    const std::uint64_t word = load_eight(at) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; left > 0; ++at, --left) crc = (crc >> 8) ^ tables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(TRAINYARD_CRC_TARGET)
  static const bool is_in_hardware = has_instruction();
  if (is_in_hardware) return crc32c_hardware(bytes, before);
#endif
  return crc32c_portable(bytes, before);
}

std::uint32_t crc32c(std::string_view text) {
  return crc32c(std::as_bytes(std::span{text}));
}

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  // The first bytes' CRC times x^8 for each byte that follows them.
  std::uint32_t power = x_to_the_8;
  for (; second_bytes != 0; second_bytes >>= 1) {
    if ((second_bytes & 1) != 0) first = product(first, power);
    power = product(power, power);
  }
  return first ^ second;
}

std::string crc32c_text(std::uint32_t crc) {
  return fmt::format("{:08x}", crc);
}

}  // namespace trainyard::storage

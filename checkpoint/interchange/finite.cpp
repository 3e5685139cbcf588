#include "checkpoint/interchange/finite.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace trainyard::checkpoint {
namespace {

/// A number of the type is infinite or NaN where (bits & mask) == value.
struct FloatFormat {
  std::string_view name;  // Name of the Dtype.
  std::size_t part_bytes;
  std::uint64_t mask;
  std::uint64_t value;
};

// IEEE 754's types and BF16: all bits of the exponent are ones. Most 8-bit types have no infinity, and one bit pattern
// for NaN apart from the sign. Sources for the 8-bit types: OCP's specifications of FP8 and MX; for the types that end
// with fnuz https://arxiv.org/abs/2206.02915.
constexpr std::array formats = {
    FloatFormat{"F64", 8, 0x7ff0000000000000, 0x7ff0000000000000},
    FloatFormat{"F32", 4, 0x7f800000, 0x7f800000},
    FloatFormat{"F16", 2, 0x7c00, 0x7c00},
    FloatFormat{"BF16", 2, 0x7f80, 0x7f80},
    FloatFormat{"ComplexHalf", 2, 0x7c00, 0x7c00},
    FloatFormat{"ComplexFloat", 4, 0x7f800000, 0x7f800000},
    FloatFormat{"ComplexDouble", 8, 0x7ff0000000000000, 0x7ff0000000000000},
    FloatFormat{"F8_E5M2", 1, 0x7c, 0x7c},
    FloatFormat{"F8_E4M3", 1, 0x7f, 0x7f},
    FloatFormat{"Float8_e5m2fnuz", 1, 0xff, 0x80},
    FloatFormat{"Float8_e4m3fnuz", 1, 0xff, 0x80},
    FloatFormat{"Float8_e8m0fnu", 1, 0xff, 0xff},
};

}  // namespace

NonFiniteCounter::NonFiniteCounter(const Dtype& dtype) {
  const auto* format = std::ranges::find(formats, dtype.name, &FloatFormat::name);
  if (format == formats.end()) return;
  part_bytes_ = format->part_bytes;
  mask_ = format->mask;
  value_ = format->value;
}

void NonFiniteCounter::take(std::span<const std::byte> bytes) {
  if (part_bytes_ == 0) return;
  if (cut_bytes_ > 0) {
    const std::size_t more = std::min(part_bytes_ - cut_bytes_, bytes.size());
    std::ranges::copy(bytes.first(more), cut_number_.begin() + static_cast<std::ptrdiff_t>(cut_bytes_));
    cut_bytes_ += more;
    bytes = bytes.subspan(more);
    if (cut_bytes_ < part_bytes_) return;
    count_whole(std::span{cut_number_}.first(part_bytes_));
  }
  cut_bytes_ = bytes.size() % part_bytes_;
  std::ranges::copy(bytes.last(cut_bytes_), cut_number_.begin());
  count_whole(bytes.first(bytes.size() - cut_bytes_));
}

void NonFiniteCounter::count_whole(std::span<const std::byte> bytes) {
  switch (part_bytes_) {
    case sizeof(std::uint64_t):
      return count_in<std::uint64_t>(bytes);
    case sizeof(std::uint32_t):
      return count_in<std::uint32_t>(bytes);
    case sizeof(std::uint16_t):
      return count_in<std::uint16_t>(bytes);
    default:
      return count_in<std::uint8_t>(bytes);
  }
}

template <typename Bits>
void NonFiniteCounter::count_in(std::span<const std::byte> bytes) {
  const auto mask = static_cast<Bits>(mask_), value = static_cast<Bits>(value_);
  std::uint64_t found = 0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits bits;  // The window may begin anywhere: the numbers are not aligned.
    std::memcpy(&bits, bytes.data() + at, sizeof(Bits));
    found += (bits & mask) == value ? 1 : 0;
  }
  count_ += found;
}

}  // namespace trainyard::checkpoint

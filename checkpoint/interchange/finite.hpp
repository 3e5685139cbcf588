#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/interchange/tensor_type.hpp"

namespace trainyard::checkpoint {

/// Counts the numbers of a tensor that are infinite or NaN. The tensor's bytes come in order, in pieces of any size. A
/// complex number is two. Types without infinity and NaN, as integers, have none.
class NonFiniteCounter {
 public:
  explicit NonFiniteCounter(const Dtype& dtype);

  void take(std::span<const std::byte> bytes);
  /// How many there are among the numbers of which all bytes have come.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  template <typename Bits>
  void count_in(std::span<const std::byte> bytes);
  void count_whole(std::span<const std::byte> bytes);

  std::size_t part_bytes_ = 0;  // of a number, or of a part of a complex one; 0: the type has neither infinity nor NaN
  std::uint64_t mask_ = 0;
  std::uint64_t value_ = 0;                // a number is not finite where its bits & mask_ are value_
  std::array<std::byte, 8> cut_number_{};  // the first bytes of a number whose others come with the next piece
  std::size_t cut_bytes_ = 0;              // how many of them have come
  std::uint64_t count_ = 0;
};

}  // namespace trainyard::checkpoint

#pragma once

#include <torch/types.h>

#include <cstdint>

namespace trainyard::strategy {

/// Bagua's MinMaxUInt8: each row of numbers as bytes between its least and its greatest number. `rows`: float32 [R, C].
/// Returns uint8 [R, compressed_bytes(C)]: of each row its least and its greatest number as float32, zeros up to byte
/// 32, then C bytes and zeros up to a multiple of 32. A row that is not finite is not finite when it is read again.
[[nodiscard]] torch::Tensor compress(const torch::Tensor& rows);

/// The numbers that compress() has kept of rows of `columns` numbers: float32 [R, columns].
[[nodiscard]] torch::Tensor decompress(const torch::Tensor& compressed, std::int64_t columns);

/// The bytes of a compressed row of `columns` numbers.
[[nodiscard]] std::int64_t compressed_bytes(std::int64_t columns);

}  // namespace trainyard::strategy

#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/strategy/bucket_exchange.hpp"

namespace trainyard::strategy {

/// Bagua's MinMaxUInt8: each row of numbers as bytes between its least and its greatest number. `rows`: float32 [R, C].
/// Returns uint8 [R, compressed_bytes(C)]: of each row its least and its greatest number as float32, zeros up to byte
/// 32, then C bytes and zeros up to a multiple of 32. A row that is not finite is not finite when it is read again.
[[nodiscard]] torch::Tensor compress(const torch::Tensor& rows);

/// The numbers that compress() has kept of rows of `columns` numbers: float32 [R, columns].
[[nodiscard]] torch::Tensor decompress(const torch::Tensor& compressed, std::int64_t columns);

/// The bytes of a compressed row of `columns` numbers.
[[nodiscard]] std::int64_t compressed_bytes(std::int64_t columns);

/// The mean of a tensor over the ranks of a group, sent as the bytes of compress(). The tensor is
/// cut into a chunk for each rank. Each rank sends its part of each chunk to that chunk's rank, which reads them, takes
/// their mean and sends it to all. Used as a BucketExchange of one bucket.
class ByteMean {
 public:
  /// `numbers`: one dimension, which keeps its storage.
  ByteMean(torch::Tensor numbers, c10::intrusive_ptr<c10d::ProcessGroup> process_group);

  /// Reads the numbers, starts the exchange and returns its first collective.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin();
  /// To be called once the last collective is done. Starts the next one, or returns nullptr once the numbers are the
  /// mean, with the same bits on all ranks.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed();
  /// The bytes that this rank gives to collectives in one exchange.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  enum class Stage { parts, means };  // the collective under way

  [[nodiscard]] torch::Tensor numbers_in_chunks() const { return chunks_.view({-1}).slice(0, 0, numbers_.numel()); }

  torch::Tensor numbers_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  std::int64_t columns_;  // C
  torch::Tensor chunks_;  // float32 [ranks, C]: the numbers, then zeros. Undefined before the first exchange.
  torch::Tensor sent_;
  torch::Tensor received_;  // uint8 [ranks, compressed_bytes(C)]
  Stage stage_ = Stage::parts;
};

/// Bagua's ByteGrad: gradients travel as compress() makes bytes. A bucket is cut into a chunk for each rank. Each
/// rank sends its part of each chunk to that chunk's rank, which reads them, takes their mean and sends it to all.
[[nodiscard]] std::unique_ptr<BucketExchange> make_byte_grad(std::vector<ExchangedBucket> buckets,
                                                             c10::intrusive_ptr<c10d::ProcessGroup> process_group);

}  // namespace trainyard::strategy

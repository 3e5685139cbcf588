#include "worker/strategy/byte_grad.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace trainyard::strategy {
namespace {

constexpr std::int64_t header_bytes = 32;
constexpr std::int64_t row_alignment_bytes = 32;
constexpr std::int64_t number_bytes = 4;
constexpr double byte_max = 255.0;
constexpr double range_min = 1e-7;  // Added to each range, so that none is zero.

/// The way in which the bytes of a row encode numbers: level = byte + level_min, number = level / scale.
struct Levels {
  torch::Tensor scale;      // [R, 1], like the others
  torch::Tensor level_max;  // the greatest number's level
  torch::Tensor level_min;  // byte 0's level
};

Levels levels_between(const torch::Tensor& least, const torch::Tensor& greatest) {
  const torch::Tensor scale = byte_max / (greatest - least + range_min);
  const torch::Tensor level_max = torch::round(greatest * scale);
  return {.scale = scale, .level_max = level_max, .level_min = level_max - byte_max};
}

torch::Tensor as_bytes(const torch::Tensor& numbers) {
  return numbers.contiguous().view(torch::kUInt8);
}

}  // namespace

std::int64_t compressed_bytes(std::int64_t columns) {
  return header_bytes + (columns + row_alignment_bytes - 1) / row_alignment_bytes * row_alignment_bytes;
}

torch::Tensor compress(const torch::Tensor& rows) {
  const std::int64_t columns = rows.size(1);
  torch::Tensor compressed =
      torch::zeros({rows.size(0), compressed_bytes(columns)}, rows.options().dtype(torch::kUInt8));
  const torch::Tensor least = rows.amin(1, /*keepdim=*/true);
  const torch::Tensor greatest = rows.amax(1, /*keepdim=*/true);
  const Levels levels = levels_between(least, greatest);
  const torch::Tensor bytes = torch::minimum(torch::round(rows * levels.scale), levels.level_max) - levels.level_min;
  compressed.slice(1, 0, number_bytes).copy_(as_bytes(least));
  compressed.slice(1, number_bytes, 2 * number_bytes).copy_(as_bytes(greatest));
  // Large numbers that hardly differ have levels that float32 rounds beyond a byte.
  compressed.slice(1, header_bytes, header_bytes + columns).copy_(bytes.nan_to_num(0.0).clamp(0.0, byte_max));
  return compressed;
}

torch::Tensor decompress(const torch::Tensor& compressed, std::int64_t columns) {
  const auto number_at = [&](std::int64_t begin) {
    return compressed.slice(1, begin, begin + number_bytes).contiguous().view(torch::kFloat);
  };
  const Levels levels = levels_between(number_at(0), number_at(number_bytes));
  const torch::Tensor bytes = compressed.slice(1, header_bytes, header_bytes + columns).to(torch::kFloat);
  return (bytes + levels.level_min) / levels.scale;
}

ByteMean::ByteMean(torch::Tensor numbers, c10::intrusive_ptr<c10d::ProcessGroup> process_group)
    : numbers_{std::move(numbers)},
      process_group_{std::move(process_group)},
      columns_{(numbers_.numel() + process_group_->getSize() - 1) / process_group_->getSize()} {}

c10::intrusive_ptr<c10d::Work> ByteMean::begin() {
  const torch::NoGradGuard no_grad;
  if (!chunks_.defined())
    chunks_ = torch::zeros({process_group_->getSize(), columns_}, numbers_.options().dtype(torch::kFloat));
  numbers_in_chunks().copy_(numbers_);
  sent_ = compress(chunks_);
  received_ = torch::empty_like(sent_);
  stage_ = Stage::parts;
  std::vector<std::int64_t> equal_parts;
  return process_group_->alltoall_base(received_, sent_, equal_parts, equal_parts);
}

c10::intrusive_ptr<c10d::Work> ByteMean::proceed() {
  const torch::NoGradGuard no_grad;
  const torch::Tensor decompressed = decompress(received_, columns_);
  if (std::exchange(stage_, Stage::means) == Stage::parts) {
    sent_ = compress(decompressed.mean(0, /*keepdim=*/true));
    return process_group_->_allgather_base(received_, sent_);
  }
  chunks_.copy_(decompressed);
  numbers_.copy_(numbers_in_chunks());
  return {};
}

std::uint64_t ByteMean::bytes() const {
  return static_cast<std::uint64_t>((process_group_->getSize() + 1) * compressed_bytes(columns_));
}

namespace {

class ByteGrad final : public BucketExchange {
 public:
  ByteGrad(const std::vector<ExchangedBucket>& buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group)
      : BucketExchange{std::move(process_group)} {
    for (const ExchangedBucket& bucket : buckets) {
      const torch::Tensor gradients = bucket.flat.slice(0, 0, bucket.flat.numel() - bucket.used.numel());
      buckets_.push_back({.mean = ByteMean{gradients, this->process_group()}, .used = bucket.used, .sum_of_used = {}});
    }
  }

  [[nodiscard]] double factor() const override { return 1.0; }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    if (world_size() == 1) return {};
    Bucket& bucket = buckets_[index];
    count(bucket.mean.bytes());
    auto work = bucket.mean.begin();
    bucket.sum_of_used = sum(bucket.used);
    return work;
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (!bucket.sum_of_used) return {};
    auto work = bucket.mean.proceed();
    return work ? work : std::exchange(bucket.sum_of_used, {});
  }

 private:
  struct Bucket {
    ByteMean mean;
    torch::Tensor used;
    c10::intrusive_ptr<c10d::Work> sum_of_used;  // nothing once proceed() has returned it
  };

  std::vector<Bucket> buckets_;
};

}  // namespace

std::unique_ptr<BucketExchange> make_byte_grad(std::vector<ExchangedBucket> buckets,
                                               c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
  return std::make_unique<ByteGrad>(buckets, std::move(process_group));
}

}  // namespace trainyard::strategy

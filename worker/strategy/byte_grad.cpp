#include "worker/strategy/byte_grad.hpp"

#include <torch/types.h>

#include <cstdint>
#include <utility>

#include "worker/strategy/min_max_uint8.hpp"

namespace trainyard::strategy {
namespace {

class ByteGrad final : public BucketExchange {
 public:
  ByteGrad(std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group)
      : BucketExchange{std::move(process_group)} {
    for (ExchangedBucket& of : buckets) {
      const std::int64_t elements = of.flat.numel() - of.used.numel();
      const std::int64_t columns = (elements + world_size() - 1) / world_size();
      Bucket bucket;
      bucket.gradients = of.flat.slice(0, 0, elements);
      bucket.used = of.used;
      bucket.chunks = torch::zeros({world_size(), columns}, of.flat.options().dtype(torch::kFloat));
      buckets_.push_back(std::move(bucket));
    }
  }

  [[nodiscard]] double factor() const override { return 1.0; }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    const torch::NoGradGuard no_grad;
    Bucket& bucket = buckets_[index];
    of_chunks(bucket).copy_(bucket.gradients);
    bucket.sent = compress(bucket.chunks);
    bucket.received = torch::empty_like(bucket.sent);
    bucket.stage = Stage::parts;
    count(bucket.sent);
    std::vector<std::int64_t> equal_parts;
    auto work = process_group().alltoall_base(bucket.received, bucket.sent, equal_parts, equal_parts);
    bucket.sum_of_used = sum(bucket.used);
    return work;
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t index) override {
    const torch::NoGradGuard no_grad;
    Bucket& bucket = buckets_[index];
    switch (std::exchange(bucket.stage, Stage::used)) {
      case Stage::parts:
        bucket.stage = Stage::means;
        return send_mean(bucket);
      case Stage::means:
        bucket.chunks.copy_(decompress(bucket.received, bucket.chunks.size(1)));
        bucket.gradients.copy_(of_chunks(bucket));
        return std::exchange(bucket.sum_of_used, {});
      case Stage::used:
        return {};
    }
    return {};
  }

 private:
  enum class Stage { parts, means, used };  // what is under way
  struct Bucket {
    torch::Tensor gradients;  // [N], a view of the bucket
    torch::Tensor used;
    torch::Tensor chunks;  // float32 [world size, C]: the gradients, then zeros
    torch::Tensor sent;
    torch::Tensor received;  // uint8 [world size, compressed_bytes(C)]
    c10::intrusive_ptr<c10d::Work> sum_of_used;
    Stage stage = Stage::used;
  };

  static torch::Tensor of_chunks(const Bucket& bucket) {
    return bucket.chunks.view({-1}).slice(0, 0, bucket.gradients.numel());
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> send_mean(Bucket& bucket) {
    bucket.sent = compress(decompress(bucket.received, bucket.chunks.size(1)).mean(0, /*keepdim=*/true));
    count(bucket.sent);
    return process_group()._allgather_base(bucket.received, bucket.sent);
  }

  std::vector<Bucket> buckets_;
};

}  // namespace

std::unique_ptr<BucketExchange> make_byte_grad(std::vector<ExchangedBucket> buckets,
                                               c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
  return std::make_unique<ByteGrad>(std::move(buckets), std::move(process_group));
}

}  // namespace trainyard::strategy

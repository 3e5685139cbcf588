#include <memory>
#include <utility>
#include <vector>

#include "worker/strategy/bucket_exchange.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/strategy_parts.hpp"

namespace trainyard::strategy {
namespace {

/// The mean of the gradients by way of rank 0, which adds up the gradients of all ranks and sends the result to them.
class ThroughRank0 final : public BucketExchange {
 public:
  ThroughRank0(const std::vector<ExchangedBucket>& buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group)
      : BucketExchange{std::move(process_group)}, is_added_up_(buckets.size()) {  // Braces would make a list.
    for (const ExchangedBucket& bucket : buckets) messages_.push_back({bucket.flat});
  }
  /// Ddp has multiplied this rank's gradients by factor(), which is 1 / world size: the sum over the ranks is the mean.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t bucket) override {
    if (world_size() == 1) return {};
    is_added_up_[bucket] = false;
    count(messages_[bucket][0].nbytes());
    return process_group()->reduce(messages_[bucket], {.rootRank = 0});
  }
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t bucket) override {
    if (is_added_up_[bucket]) return {};
    is_added_up_[bucket] = true;
    count(messages_[bucket][0].nbytes());
    return process_group()->broadcast(messages_[bucket], {.rootRank = 0});
  }

 private:
  std::vector<std::vector<torch::Tensor>> messages_;  // by bucket: its gradients, as collectives take them
  std::vector<bool> is_added_up_;                     // by bucket
};

}  // namespace

std::unique_ptr<GradientSync> make_through_rank0(StrategyParts parts) {
  const MakeExchange make = [](const auto& buckets, const auto& group) {
    return std::make_unique<ThroughRank0>(buckets, group);
  };
  const DdpOptions options{
      .timeline = parts.timeline, .exchange = [make](const auto& /*names*/) { return make; }, .follow = parts.follow};
  return std::make_unique<Ddp>(std::move(parts.parameters), std::move(parts.buffers), parts.group.process_group,
                               *parts.group.communicator, std::move(parts.wait), options);
}

}  // namespace trainyard::strategy

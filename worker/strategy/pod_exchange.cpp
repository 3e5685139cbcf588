#include "worker/strategy/pod_exchange.hpp"

#include <torch/types.h>

#include <utility>

#include "common/check.hpp"

namespace trainyard::strategy {
namespace {

class PodExchange final : public BucketExchange {
 public:
  PodExchange(const std::vector<ExchangedBucket>& buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
              const MakeExchange& make_inner, dist::PodGroups pods)
      : BucketExchange{std::move(process_group)},
        pods_{std::move(pods)},
        inner_{make_inner(buckets, pods_.first_ranks)} {
    for (const ExchangedBucket& bucket : buckets) buckets_.push_back({.flat = bucket.flat});
  }

  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override {
    return inner_->adapt(std::move(optimizer));
  }

  /// Makes a mean over the first ranks the mean over all ranks.
  [[nodiscard]] double factor() const override {
    return inner_->factor() * static_cast<double>(pods_.pods.size()) / world_size();
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (index == 0) results_ = 0;
    if (pods_.own->getSize() == 1) {
      bucket.stage = Stage::inner;
      return inner_->begin(index);
    }
    bucket.stage = Stage::sum;
    count(bucket.flat.nbytes());
    std::vector<torch::Tensor> message{bucket.flat};
    return pods_.is_one_pod() ? pods_.own->allreduce(message) : pods_.own->reduce(message, {.rootRank = 0});
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (bucket.stage == Stage::result) return {};
    if (bucket.stage == Stage::sum && !pods_.is_one_pod() && !pods_.is_first_rank()) return send_result(index);
    const bool begins = std::exchange(bucket.stage, Stage::inner) == Stage::sum;
    if (auto work = begins ? inner_->begin(index) : inner_->proceed(index)) return work;
    if (pods_.is_one_pod() || pods_.own->getSize() == 1) return {};
    return send_result(index);
  }

  void end_step() override { inner_->end_step(); }
  [[nodiscard]] NamedTensors state() const override { return inner_->state(); }
  [[nodiscard]] std::vector<torch::Tensor> common_state() const override { return inner_->common_state(); }
  [[nodiscard]] std::uint64_t exchanged_bytes() const override {
    return BucketExchange::exchanged_bytes() + inner_->exchanged_bytes();
  }

 private:
  enum class Stage { sum, inner, result };  // the collective under way
  struct Bucket {
    torch::Tensor flat;
    Stage stage = Stage::sum;
  };

  /// Gives the pod's ranks what its first rank has.
  c10::intrusive_ptr<c10d::Work> send_result(std::size_t index) {
    // The other ranks ask for the buckets in this order, however many collectives the first ranks have in between.
    check(index == results_++, "the results of the buckets are sent to the pod in the order of the buckets");
    Bucket& bucket = buckets_[index];
    bucket.stage = Stage::result;
    count(bucket.flat.nbytes());
    std::vector<torch::Tensor> message{bucket.flat};
    return pods_.own->broadcast(message, {.rootRank = 0});
  }

  dist::PodGroups pods_;
  std::unique_ptr<BucketExchange> inner_;  // only the first ranks begin its collectives
  std::vector<Bucket> buckets_;
  std::size_t results_ = 0;  // sent in this step
};

}  // namespace

MakeExchange by_pod(MakeExchange make_inner, dist::PodGroups pods) {
  return [make_inner = std::move(make_inner), pods = std::move(pods)](
             std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
    return std::make_unique<PodExchange>(buckets, std::move(process_group), make_inner, pods);
  };
}

}  // namespace trainyard::strategy

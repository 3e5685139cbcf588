#include "worker/strategy/async_average.hpp"

#include <ATen/core/ivalue.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "worker/averaging/rounds.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/snapshot_sum.hpp"

namespace trainyard::strategy {
namespace {

using averaging::Demand;
using averaging::Wish;

/// A work that another thread finishes.
class DemandWork final : public c10d::Work {
 public:
  bool isCompleted() override { return future_->completed(); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    future_->wait();
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  void finish() { future_->markCompleted(); }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_ = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
};

/// Lets the training thread wait for the rounds' thread as it waits for a collective: with beats, and not longer than
/// the group lasts.
class DemandBell {
 public:
  /// A work that the next ring() finishes.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> next() {
    const std::scoped_lock lock{mutex_};
    work_ = c10::make_intrusive<DemandWork>();
    return work_;
  }
  void ring() {
    c10::intrusive_ptr<DemandWork> work;
    {
      const std::scoped_lock lock{mutex_};
      work = std::exchange(work_, {});
    }
    if (work) work->finish();
  }

 private:
  std::mutex mutex_;  // guards work_
  c10::intrusive_ptr<DemandWork> work_;
};

class AsyncAverage final : public PerRankModel {
 public:
  AsyncAverage(PerRankModelParts parts, torch::ScalarType type, AsyncOptions options)
      : PerRankModel{std::move(parts), type},
        reducer_{std::move(options.reducer)},
        warmup_steps_{options.warmup_steps},
        snapshots_{flat(), make_flat()},
        rounds_{options.sync_interval, [this] { bell_.ring(); }} {
    if (warmup_steps_ > 0) {
      warm_up_.emplace(this->parts().parameters, NamedTensors{}, this->parts().process_group,
                       this->parts().communicator, this->parts().wait,
                       DdpOptions{.limits = options.limits, .follow = this->parts().follow});
    }
    thread_ = std::jthread{[this](const std::stop_token& stop) { run_rounds(stop); }};
  }

  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override {
    return after_average(std::move(optimizer), [this] { meet_demands(); });
  }

  void zero_gradients() override {
    if (warm_up_ && steps() >= warmup_steps_) {
      count_bytes(warm_up_->exchanged_bytes());
      warm_up_.reset();  // Its buckets are as large as all gradients.
    }
    warm_up_ ? warm_up_->zero_gradients() : PerRankModel::zero_gradients();
  }

  void begin_backward(bool is_last_batch) override {
    if (warm_up_) warm_up_->begin_backward(is_last_batch);
  }

  [[nodiscard]] Result<void> finish_gradients() override {
    if (warm_up_) TRY(warm_up_->finish_gradients());
    return check_rounds();
  }

  [[nodiscard]] Result<void> after_update() override {
    TRY(PerRankModel::after_update());
    if (!is_averaging_ && steps() >= warmup_steps_) {
      is_averaging_ = true;
      rounds_.begin(std::chrono::steady_clock::now());
    }
    return check_rounds();
  }

  [[nodiscard]] Result<void> hold_parameters() override {
    if (!std::exchange(is_averaging_, false)) return {};
    rounds_.leave();
    for (;;) {
      const c10::intrusive_ptr<c10d::Work> next_demand = bell_.next();  // before demands are met, so as to miss none
      const Demand demand = meet_demands();
      if (demand == Demand::end) return take_mean();
      TRY(check_rounds());
      if (demand != Demand::none) continue;
      TRY(parts().follow(next_demand, "the end of the rounds that average the parameters"));
    }
  }

  [[nodiscard]] std::uint64_t exchanged_bytes() const override {
    return PerRankModel::exchanged_bytes() + (warm_up_ ? warm_up_->exchanged_bytes() : 0);
  }

 private:
  void run_rounds(const std::stop_token& stop) {
    try {
      while (const auto wish = rounds_.wait_for_round(stop)) {
        if (const auto done = run_round(*wish, stop); !done) return rounds_.fail({.error = done.error(), .own = {}});
      }
    } catch (...) {
      rounds_.fail({.error = {}, .own = std::current_exception()});
    }
  }

  Result<void> run_round(Wish wish, const std::stop_token& stop) {
    const bool is_end = TRY(reducer_->any(wish == Wish::leave));
    rounds_.agree(is_end ? Wish::leave : Wish::average, std::chrono::steady_clock::now());
    if (is_end || !rounds_.wait_for_snapshot(stop)) return {};
    TRY(snapshots_.sum(*reducer_));
    rounds_.give_sum();
    return {};
  }

  /// Takes a sum and gives a snapshot, where the rounds demand it, and returns the next demand. Called only where
  /// parameters may change.
  Demand meet_demands() {
    Demand demand = rounds_.demand();
    if (demand == Demand::sum) {
      snapshots_.change_parameters(world_size());
      rounds_.take_sum();
      demand = rounds_.demand();
    }
    if (demand == Demand::snapshot) {
      snapshots_.take_snapshot();
      count_bytes(flat_tensor().nbytes());
      rounds_.give_snapshot();
      demand = rounds_.demand();
    }
    return demand;
  }

  [[nodiscard]] Result<void> check_rounds() const {
    const auto failure = rounds_.failure();
    if (!failure) return {};
    if (failure->own) std::rethrow_exception(failure->own);
    return tl::unexpected(failure->error);
  }

  /// Gives all ranks the mean of their parameters.
  Result<void> take_mean() {
    const torch::NoGradGuard no_grad;
    flat().pack();
    begin_exchange(
        [this] {
          std::vector<torch::Tensor> message{flat_tensor()};
          return parts().process_group->allreduce(message);
        },
        flat_tensor().nbytes());
    TRY(finish_exchange());
    torch::Tensor mean = flat_tensor();
    mean.div_(world_size());
    flat().unpack();
    return {};
  }

  std::unique_ptr<dist::HostReducer> reducer_;  // used by thread_
  std::int64_t warmup_steps_;
  std::optional<Ddp> warm_up_;  // nothing after the warm-up
  bool is_averaging_ = false;   // since the last after_update(), unless the parameters are held
  SnapshotSum snapshots_;
  DemandBell bell_;
  averaging::Rounds rounds_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<GradientSync> make_async_average(PerRankModelParts parts, AsyncOptions options) {
  const torch::ScalarType type = averaged_type(parts.parameters);
  return std::make_unique<AsyncAverage>(std::move(parts), type, std::move(options));
}

}  // namespace trainyard::strategy

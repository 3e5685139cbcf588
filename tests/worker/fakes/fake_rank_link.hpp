#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/rank/rank_link.hpp"

namespace trainyard::fakes {

/// A link that records what is reported. Any thread may call.
class FakeRankLink final : public rank::RankLink {
 public:
  void report(const rank::RankProgress& progress) override {
    {
      const std::scoped_lock lock{mutex_};
      reports_.push_back(progress);
    }
    if (on_report) on_report(progress);
  }
  void beat() override { ++beats_; }
  void set_long_wait(std::string_view collective) override {
    const std::scoped_lock lock{mutex_};
    long_waits_.emplace_back(collective);
  }
  [[nodiscard]] bool is_stop_requested() const override { return is_stop_requested_; }
  [[nodiscard]] std::optional<rank::CheckpointRequest> checkpoint_request() const override {
    const std::scoped_lock lock{mutex_};
    return checkpoint_request_;
  }
  [[nodiscard]] std::optional<rank::RankEnd> group_failure() const override {
    ++looks_;
    looks_.notify_all();
    const std::scoped_lock lock{mutex_};
    return group_failure_;
  }
  [[noreturn]] void exit(const rank::RankEnd& /*end*/) override { std::abort(); }

  [[nodiscard]] std::int64_t beats() const { return beats_; }
  /// How often group_failure() was called.
  [[nodiscard]] std::int64_t looks() const { return looks_; }
  /// Waits until group_failure() was called `count` times.
  void wait_for_looks(std::int64_t count) const {
    for (std::int64_t looks = looks_; looks < count; looks = looks_) looks_.wait(looks);
  }
  void request_stop() { is_stop_requested_ = true; }
  void ask_for_checkpoint(rank::CheckpointRequest request) {
    const std::scoped_lock lock{mutex_};
    checkpoint_request_ = std::move(request);
  }
  void break_group(rank::RankEnd failure) {
    const std::scoped_lock lock{mutex_};
    group_failure_ = std::move(failure);
  }
  [[nodiscard]] std::vector<rank::RankProgress> reports() const {
    const std::scoped_lock lock{mutex_};
    return reports_;
  }

  /// The arguments of set_long_wait(), in order.
  [[nodiscard]] std::vector<std::string> long_waits() const {
    const std::scoped_lock lock{mutex_};
    return long_waits_;
  }

  std::function<void(const rank::RankProgress&)> on_report;  ///< Called on the thread that reports.

 private:
  std::atomic<std::int64_t> beats_{0};
  mutable std::atomic<std::int64_t> looks_{0};
  std::atomic<bool> is_stop_requested_{false};
  mutable std::mutex mutex_;  // guards the four below
  std::vector<std::string> long_waits_;
  std::vector<rank::RankProgress> reports_;
  std::optional<rank::CheckpointRequest> checkpoint_request_;
  std::optional<rank::RankEnd> group_failure_;
};

}  // namespace trainyard::fakes

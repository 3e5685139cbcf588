#pragma once

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "worker/launcher/rank_link.hpp"

namespace trainyard::fakes {

/// A launcher that remembers what it was told. Any thread may call.
class FakeRankLink final : public launcher::RankLink {
 public:
  void report(const launcher::RankProgress& progress) override {
    const std::scoped_lock lock{mutex_};
    reports_.push_back(progress);
  }
  void beat() override {}
  [[nodiscard]] bool is_stop_requested() const override { return is_stop_requested_; }
  [[nodiscard]] std::optional<launcher::RankEnd> group_failure() const override {
    const std::scoped_lock lock{mutex_};
    return group_failure_;
  }
  [[noreturn]] void exit(const launcher::RankEnd& /*end*/) override { std::abort(); }

  void request_stop() { is_stop_requested_ = true; }
  void break_group(launcher::RankEnd failure) {
    const std::scoped_lock lock{mutex_};
    group_failure_ = std::move(failure);
  }
  [[nodiscard]] std::vector<launcher::RankProgress> reports() const {
    const std::scoped_lock lock{mutex_};
    return reports_;
  }

 private:
  std::atomic<bool> is_stop_requested_{false};
  mutable std::mutex mutex_;  // guards the two below
  std::vector<launcher::RankProgress> reports_;
  std::optional<launcher::RankEnd> group_failure_;
};

}  // namespace trainyard::fakes

#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "common/check.hpp"

namespace trainyard::fakes {

/// Lets two threads, 0 and 1, take steps in an order that a test prescribes, so that an interleaving can be repeated.
/// Any thread may call.
class Turns {
 public:
  /// `bursts` are the numbers of steps that thread 0 takes first, then thread 1, then 0 again, and so on. After the
  /// last one the thread whose turn it is keeps it until it leaves. `on_change` is called at each change of turns,
  /// between steps.
  explicit Turns(std::vector<int> bursts, std::function<void()> on_change = nullptr)
      : bursts_{std::move(bursts)}, on_change_{std::move(on_change)} {
    left_ = take_burst();
  }

  /// Returns when thread `who` may take a step.
  void step(std::size_t who) {
    std::unique_lock lock{mutex_};
    wait_for_turn(lock, who);
    if (left_ == 0 && !has_left_[1 - who]) {
      pass_turn(1 - who);
      wait_for_turn(lock, who);
    }
    if (left_ > 0) --left_;
  }

  /// Thread `who` takes no more steps.
  void leave(std::size_t who) {
    std::unique_lock lock{mutex_};
    wait_for_turn(lock, who);
    has_left_[who] = true;
    if (!has_left_[1 - who]) pass_turn(1 - who);
  }

 private:
  static constexpr std::chrono::minutes patience{1};

  int take_burst() { return next_ < bursts_.size() ? bursts_[next_++] : std::numeric_limits<int>::max(); }
  void wait_for_turn(std::unique_lock<std::mutex>& lock, std::size_t who) {
    check(changed_.wait_for(lock, patience, [&] { return turn_ == who; }), "the other thread takes its steps");
  }
  void pass_turn(std::size_t to) {
    if (on_change_) on_change_();
    turn_ = to;
    left_ = take_burst();
    changed_.notify_all();
  }

  const std::vector<int> bursts_;
  const std::function<void()> on_change_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::size_t next_ = 0;
  std::size_t turn_ = 0;
  int left_ = 0;
  std::array<bool, 2> has_left_{};
};

}  // namespace trainyard::fakes

#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// The steps that this rank has queued on its device and that may not be done yet. The training thread queues at most a
/// few steps ahead, so that the device never waits for the host and a failure is noticed soon.
///
/// All functions but waits_for_others() are called by the training thread. They throw as torch does when this rank's
/// device has failed, or a kernel of its program (torch_error.hpp). Their errors are those of wait_or_fail(), and may
/// come at a later call than the one that caused them. After an error the process should end by RankLink::exit.
class StepsInFlight {
 public:
  static constexpr std::size_t default_steps_max = 4;

  /// `link` outlives the object. `deadline`: how long one wait may take; nothing: without end. `steps_max`: how many
  /// steps may be queued and not done. Makes small tensors on `device` and in pinned memory.
  StepsInFlight(torch::Device device, rank::RankLink& link, std::optional<std::chrono::milliseconds> deadline,
                std::size_t steps_max = default_steps_max);
  StepsInFlight(const StepsInFlight&) = delete;
  StepsInFlight& operator=(const StepsInFlight&) = delete;

  /// Orders the current stream after `work`, a collective of the step that is being queued, without waiting for it. A
  /// collective on the host is waited for by wait_or_fail(), with beats only while waits_for_others() or once all that
  /// this rank has queued is done. `what` names the collective in messages.
  [[nodiscard]] Result<void> follow(const c10::intrusive_ptr<c10d::Work>& work, std::string_view what);
  /// The step is queued, or a batch of it. Waits for the oldest where `steps_max` others are not done.
  [[nodiscard]] Result<void> end_step();
  /// Waits until everything that is queued on the current stream is done. To be called before values are read.
  [[nodiscard]] Result<void> finish();

  /// True while the oldest step that is not done waits for a collective that this rank has reached. False while a
  /// kernel of this rank runs in that step, before a collective or after the last one: so only the rank that is stuck
  /// falls silent. Any thread may call.
  [[nodiscard]] bool waits_for_others() const;

 private:
  struct Collective {
    c10::intrusive_ptr<c10d::Work> work;
    std::string what;
  };
  struct Step {
    std::vector<Collective> collectives;  // in the order of the stream
    std::optional<c10::Event> end;        // set once the step is queued
  };

  [[nodiscard]] Result<void> wait_on_host(const c10::intrusive_ptr<c10d::Work>& work, std::string_view what);
  [[nodiscard]] Result<void> wait_for_oldest();
  [[nodiscard]] Result<void> wait_for(const std::function<bool()>& is_done, std::string_view what);
  void open_step();
  void close_step();
  void queue_mark(std::size_t mark, const torch::Tensor& value);
  [[nodiscard]] std::atomic_ref<std::uint8_t> mark_of(std::size_t step, std::size_t mark) const;
  /// Beats while waits_for_others(), because the driver may stop the training thread while the device's queue is full
  /// (docs/design-worker.md, "How is the culprit of a hang named?").
  void beat(const std::stop_token& stop);

  torch::Device device_;
  rank::RankLink& link_;
  std::optional<std::chrono::milliseconds> deadline_;
  std::size_t steps_max_;
  std::deque<Step> steps_;    // the oldest first; the last may have no end yet
  torch::Tensor zero_;        // uint8 [1], on the device
  torch::Tensor one_;         // as zero_
  torch::Tensor marks_;       // uint8 [steps, 2], pinned: step waits, step done. Step n has row n modulo steps.
  mutable std::mutex mutex_;  // guards begun_, done_, and that a row of marks_ is cleared before its step begins
  std::size_t begun_ = 0;     // how many steps have begun
  std::size_t done_ = 0;      // how many of them were waited for
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace trainyard::dist

#include "worker/dist/steps_in_flight.hpp"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include <exception>
#include <utility>

#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/dist/watched_wait.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;

/// Often enough for the shortest time after which a launcher takes a silent rank for stuck.
constexpr auto beat_interval = 100ms;

// The columns of the marks.
constexpr std::size_t is_waiting = 0;
constexpr std::size_t is_done = 1;
constexpr std::size_t columns = 2;

bool is_on_device(const c10::intrusive_ptr<c10d::Work>& work) {
  return !work->getFuture()->devices().empty();
}

/// Runs `call`. A device reports the failure of any earlier work there: only a lost connection is a lost peer.
template <typename Call>
Result<void> with_lost_peers(std::string_view what, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    if (failed_part(error) != FailedPart::communication) throw;
    return lost_collective(what, message_of(error));
  }
}

}  // namespace

StepsInFlight::StepsInFlight(torch::Device device, rank::RankLink& link,
                             std::optional<std::chrono::milliseconds> deadline, std::size_t steps_max)
    : device_{device},
      link_{link},
      deadline_{deadline},
      steps_max_{steps_max},
      zero_{torch::zeros({1}, torch::dtype(torch::kByte).device(device))},
      one_{torch::ones({1}, torch::dtype(torch::kByte).device(device))},
      // Besides the steps that are queued, one is being queued.
      marks_{torch::zeros({static_cast<std::int64_t>((steps_max + 1) * columns)},
                          torch::dtype(torch::kByte).pinned_memory(true))},
      thread_{[this](const std::stop_token& stop) { beat(stop); }} {}

Result<void> StepsInFlight::follow(const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
  if (!is_on_device(work)) return wait_on_host(work, what);
  open_step();
  Step& step = steps_.back();
  return with_lost_peers(what, [&]() -> Result<void> {
    step.collectives.push_back({.work = work, .what = std::string{what}});
    queue_mark(is_waiting, one_);
    work->wait();
    queue_mark(is_waiting, zero_);  // The kernels after it are this rank's own again.
    return {};
  });
}

Result<void> StepsInFlight::end_step() {
  close_step();
  while (steps_.size() > steps_max_) {
    TRY(wait_for_oldest());
  }
  return {};
}

Result<void> StepsInFlight::finish() {
  close_step();  // Whatever was queued after the last step's end.
  while (!steps_.empty()) {
    TRY(wait_for_oldest());
  }
  return {};
}

/// Reads bytes that the device sets in pinned memory, and never calls the driver, which may have a lock that the
/// training thread holds.
bool StepsInFlight::waits_for_others() const {
  const std::scoped_lock lock{mutex_};
  for (std::size_t step = done_; step < begun_; ++step) {
    if (mark_of(step, is_done).load() == 0) return mark_of(step, is_waiting).load() != 0;
  }
  return false;
}

/// The steps that are queued run meanwhile: a rank whose own kernel is stuck there must fall silent here too.
Result<void> StepsInFlight::wait_on_host(const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
  std::optional<c10::Event> queued;
  return wait_or_fail(work, link_, deadline_, what, [&] {
    if (waits_for_others()) return true;
    if (!queued) queued = mark_queue(device_);
    return queued->query();
  });
}

Result<void> StepsInFlight::wait_for_oldest() {
  Step& oldest = steps_.front();
  for (const Collective& collective : oldest.collectives) {
    TRY(with_lost_peers(collective.what, [&]() -> Result<void> {
      TRY(wait_for([&] { return collective.work->isCompleted(); }, collective.what));
      // A communicator that is aborted ends its kernels without their results: the stream alone does not tell.
      if (const std::exception_ptr error = collective.work->exception()) std::rethrow_exception(error);
      return {};
    }));
  }
  TRY(wait_for([&] { return oldest.end->query(); }, "a step on the device"));
  steps_.pop_front();
  link_.beat();  // finish() may wait for several steps, each of which takes its time.
  const std::scoped_lock lock{mutex_};
  ++done_;
  return {};
}

Result<void> StepsInFlight::wait_for(const std::function<bool()>& is_done, std::string_view what) {
  return wait_watched(
      {.is_done = [&] { return ask_device(is_done); }, .waits_for_others = [this] { return waits_for_others(); }},
      link_, deadline_, what);
}

void StepsInFlight::open_step() {
  if (!steps_.empty() && !steps_.back().end) return;
  steps_.emplace_back();
  const std::scoped_lock lock{mutex_};
  for (std::size_t mark = 0; mark < columns; ++mark) mark_of(begun_, mark).store(0);
  ++begun_;
}

void StepsInFlight::close_step() {
  open_step();
  queue_mark(is_done, one_);
  steps_.back().end = mark_queue(device_);
}

void StepsInFlight::queue_mark(std::size_t mark, const torch::Tensor& value) {
  const std::size_t row = (begun_ - 1) % (steps_max_ + 1);
  marks_.narrow(0, static_cast<std::int64_t>(row * columns + mark), 1).copy_(value, /*non_blocking=*/true);
}

std::atomic_ref<std::uint8_t> StepsInFlight::mark_of(std::size_t step, std::size_t mark) const {
  return std::atomic_ref{marks_.data_ptr<std::uint8_t>()[(step % (steps_max_ + 1)) * columns + mark]};
}

void StepsInFlight::beat(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock{mutex};
  while (!stopped_.wait_for(lock, stop, beat_interval, [&stop] { return stop.stop_requested(); })) {
    if (waits_for_others()) link_.beat();
  }
}

}  // namespace trainyard::dist

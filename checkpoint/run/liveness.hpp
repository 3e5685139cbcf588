#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "checkpoint/format/claim.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

/// Runs by hand have no UID: nothing tells the next run of a job from a second one beside it. So they give signs of
/// life, and a second run is refused while the first one lives.
namespace trainyard::checkpoint {

/// How often a run by hand puts its sign of life: one small object, overwritten.
inline constexpr std::chrono::seconds sign_interval{30};
/// How long after its last sign a run is taken for alive. Clocks of different machines may differ by less.
inline constexpr std::chrono::seconds life_time{90};

/// Identifies this process among those of all machines: the machine's boot, the pid namespace, the pid, and when it
/// started. Empty where /proc does not say.
[[nodiscard]] std::string this_process();

/// True while the process that this_process() named there runs. Nothing where that cannot be known: it was named on
/// another machine, before a restart of this one, or in another container.
[[nodiscard]] std::optional<bool> is_running(std::string_view process);

/// What is known of the life of a run by hand.
struct LastSign {
  Time time;
  std::optional<bool> is_running;  ///< Its process. Nothing: not known here.
  bool operator==(const LastSign&) const = default;
};

/// How much longer the run is to be taken for alive; nothing when it is not. Pure. For a process that is known to run
/// the whole of `life_time`, whatever its last sign.
[[nodiscard]] std::optional<std::chrono::milliseconds> life_left(const LastSign& sign, Time now);

/// The last sign of the run of `claim`; nothing for a run that gives none. The claim itself is the first sign.
[[nodiscard]] Result<std::optional<LastSign>> read_sign(storage::Store& store, const Claim& claim);

/// Puts a run's signs of life from a thread of its own, until it is destroyed. Failures are tried again with the next.
class SignsOfLife {
 public:
  SignsOfLife(storage::Store& store, const Clock& clock, std::int64_t generation,
              std::chrono::milliseconds interval = sign_interval);

 private:
  void run(const std::stop_token& stop);

  storage::Store& store_;
  const Clock& clock_;
  const std::int64_t generation_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;  // guards nothing but the wait
  std::condition_variable_any changed_;
  std::jthread thread_;  // The last: it ends before what it uses.
};

}  // namespace trainyard::checkpoint

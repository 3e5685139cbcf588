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

/// Runs by hand have no UID, so a second run beside the first looks like the next run of the same job. A run by hand
/// therefore gives signs of life, and no second run may claim while the first lives.
namespace trainyard::checkpoint {

/// How often a run by hand puts its sign of life: one small object, overwritten.
inline constexpr std::chrono::seconds sign_interval{30};
/// How long a run is taken for alive after its last sign. The clocks of two machines must differ by less.
inline constexpr std::chrono::seconds life_time{90};

/// Identifies this process among those of all machines: the machine's boot, the pid namespace, the pid, and when it
/// started. Empty where /proc does not say.
[[nodiscard]] std::string this_process();

/// True while the process that this_process() named runs. Nothing where that cannot be known: the name is from another
/// machine or container, or from before a restart of this machine.
[[nodiscard]] std::optional<bool> is_running(std::string_view process);

/// The last that is known of a run by hand.
struct LastSign {
  Time time;
  std::optional<bool> is_running;  ///< True while its process runs. Nothing: not known here.
  bool operator==(const LastSign&) const = default;
};

/// How much longer the run is taken for alive; nothing when it is not. If its process is known to run, this is all of
/// `life_time`, whatever the last sign. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> life_left(const LastSign& sign, Time now);

/// The last sign of life of `claim`'s run; nothing for a run that gives none. The claim itself is the first sign.
[[nodiscard]] Result<std::optional<LastSign>> read_sign(storage::Store& store, const Claim& claim);

/// Puts a run's signs of life from a thread of its own until destroyed. A failed put is retried with the next sign.
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

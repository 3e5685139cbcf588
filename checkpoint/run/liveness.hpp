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
/// How long after its last sign of life a run is taken for alive. The clocks of two machines must differ by less than
/// this minus `sign_interval`: a living run's last sign may be that old.
inline constexpr std::chrono::seconds sign_valid_for{90};

/// Identifies this process among those of all machines: the machine's boot, the pid namespace, the pid, and when it
/// started. Empty where /proc does not say.
[[nodiscard]] std::string this_process();

/// True while the process that this_process() named runs. Nothing where that cannot be known: the name is from another
/// machine or container, or from before a restart of this machine.
[[nodiscard]] std::optional<bool> is_running(std::string_view process);

/// Says when a run by hand last gave a sign of life, and whether its process runs.
struct Liveness {
  Time last_sign;
  std::optional<bool> is_running;  ///< Nothing: not known on this machine.
  bool operator==(const Liveness&) const = default;
};

/// How much longer the run is taken for alive; nothing when it is not. If its process is known to run, this is all of
/// `sign_valid_for`, whenever the last sign was. At most a year and `sign_valid_for`. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> alive_for(const Liveness& liveness, Time now);

/// The liveness of `claim`'s run; nothing for a run that gives no signs of life. The claim itself is the first sign.
[[nodiscard]] Result<std::optional<Liveness>> read_liveness(storage::Store& store, const Claim& claim);

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

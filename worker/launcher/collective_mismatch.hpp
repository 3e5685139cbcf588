#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "worker/launcher/culprit.hpp"

/// The hang that has no culprit (culprit.hpp): all ranks wait for each other, but in collectives of different names,
/// because the program has called a collective on some ranks only, or in another order. No rank is silent then, so that
/// the launchers compare what each waits for (docs/design-worker.md, "How is the culprit of a hang named?").
///
/// The times are long: the ranks of a healthy group differ too, while one of them still receives a collective's result,
/// and a broken network that heals takes TCP up to two minutes.
namespace trainyard::launcher {

/// How many of a launcher's ranks have waited for others in one collective for long.
struct LongWait {
  std::string collective;  ///< Its name in messages.
  std::int64_t ranks = 1;
  std::int64_t first_rank = 0;  ///< The lowest of them.
  bool operator==(const LongWait&) const = default;
};

/// A message between launchers carries no more.
inline constexpr std::size_t long_waits_max = 8;

/// Adds a rank, by rising number. Beyond long_waits_max collectives it is counted with the last one.
void add_rank(std::vector<LongWait>& waits, std::int64_t rank, const std::string& collective);

/// The failure of a group whose `world_size` ranks all wait, in more than one collective. Nothing while a rank does not
/// wait, when all wait in the same one, and when all members of a process set wait in the same one of that set:
/// somebody is slow. `waits`: those of all launchers, in any order.
[[nodiscard]] std::optional<GroupFailure> mismatch_of(const std::vector<LongWait>& waits, std::int64_t world_size);

/// Reports a mismatch only when it lasts, since a rank's wait may have ended before the rank could say so.
class MismatchWatch {
 public:
  /// The failure, once `mismatch` has been there at every look for `deadline`. Looks more than 2 s apart begin anew:
  /// this process slept itself, and knows nothing of the time between.
  [[nodiscard]] std::optional<GroupFailure> look(std::optional<GroupFailure> mismatch, Instant now,
                                                 std::chrono::milliseconds deadline);

 private:
  std::optional<Instant> since_;
  Instant looked_;
};

}  // namespace trainyard::launcher

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/clock.hpp"

/// How fast a job trains, and where the time of its steps goes by each rank's own clock. Nothing waits for a device: on
/// a GPU these are the times in which the host queues work or waits for it, and work of the GPU shows where the host
/// next waits.
namespace trainyard::observe {

/// Measures how fast a job trains. The time of pauses (validating, saving) is left out.
class SpeedMeter {
 public:
  explicit SpeedMeter(Instant start) : since_{start} {}

  /// Adds `samples` that the whole job has trained on.
  void add(std::int64_t samples) { samples_ += samples; }
  /// Begin and end a pause.
  void pause(Instant now) { busy_ += now - since_; }
  void resume(Instant now) { since_ = now; }

  /// Samples per second since the last call, or since the start; empty when no time has passed.
  [[nodiscard]] std::optional<double> take_rate(Instant now);

  /// The expected time for `samples` more, by the moving average of the rates of take_rate(), in which each new rate
  /// has a weight of 0.3. Empty before the first rate.
  [[nodiscard]] std::optional<std::chrono::duration<double>> time_for(std::int64_t samples) const;

 private:
  Instant since_;
  std::chrono::nanoseconds busy_{0};
  std::int64_t samples_ = 0;
  std::optional<double> smooth_rate_;
};

enum class StepPart { data, forward, backward, communication, optimizer, checkpoint };
inline constexpr std::array<std::string_view, 6> step_part_names{"data",          "forward",   "backward",
                                                                 "communication", "optimizer", "checkpoint"};

struct StepTimes {
  std::int64_t steps = 0;
  std::array<std::chrono::nanoseconds, step_part_names.size()> parts{};  ///< By StepPart, the sum over the steps.
  bool operator==(const StepTimes&) const = default;
};

/// Measures the parts of steps.
class StepTimer {
 public:
  explicit StepTimer(const Clock& clock) : clock_{clock} {}

  /// The time from here on belongs to the part that ends next.
  void begin() { since_ = clock_.instant(); }
  /// The time since begin() or the part before belongs to `part`.
  void end(StepPart part) {
    const Instant now = clock_.instant();
    times_.parts[static_cast<std::size_t>(part)] += now - since_;
    since_ = now;
  }
  /// Counts a step for which this rank had samples.
  void count_step() { ++times_.steps; }
  /// The times since the last call.
  [[nodiscard]] StepTimes take() { return std::exchange(times_, {}); }

 private:
  const Clock& clock_;
  Instant since_;
  StepTimes times_;
};

struct RankTimes {
  std::string node;
  StepTimes times;
  bool operator==(const RankTimes&) const = default;
};

/// One line, for the message by which the ranks' metrics are reduced.
[[nodiscard]] std::string to_line(const RankTimes& times);
/// Reads the text of to_line(); all zero for another text.
[[nodiscard]] RankTimes parse_rank_times(const std::string& line);

/// Milliseconds per step of each part, by its name.
[[nodiscard]] std::map<std::string, double> step_milliseconds(const StepTimes& times);
/// The mean over all ranks of those milliseconds.
[[nodiscard]] std::map<std::string, double> step_milliseconds(std::span<const RankTimes> ranks);

/// A rank that makes the others wait.
struct Straggler {
  std::int64_t rank = 0;
  std::string node;
  StepPart part = StepPart::data;  ///< The part that takes it the most time beyond the median.
  double ratio = 0.0;              ///< Its own time, divided by the median.
  bool operator==(const Straggler&) const = default;
};

/// Before the names of the times of a step's parts where they are metrics: "stepTimes/data".
inline constexpr std::string_view step_times_prefix = "stepTimes/";
/// The metric of the job's speed.
inline constexpr std::string_view speed_metric = "samplesPerSecond";

/// How many times the median a rank's own time has to be.
inline constexpr double straggler_factor = 1.5;
/// How much longer than the median its own time of a step has to be: less is noise of short steps.
inline constexpr std::chrono::milliseconds straggler_delay{2};

/// The rank with the most own time (all but communication, in which the fast ranks wait for the slow one), when that
/// is at least `straggler_factor` times the median of all ranks (of an even number: the lower of the two in the
/// middle), and at least `straggler_delay` above it. Nothing where the ranks have not made equally many steps, as when
/// some had no samples.
[[nodiscard]] std::optional<Straggler> find_straggler(std::span<const RankTimes> ranks);

}  // namespace trainyard::observe

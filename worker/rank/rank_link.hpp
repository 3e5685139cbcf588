#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.hpp"
#include "worker/rank/checkpoint_request.hpp"

/// The rank process's end of the pipe to its launcher. No torch here: both sides include it.
namespace trainyard::rank {

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string uri;
  Time time;
  std::int64_t bytes = 0;
  double duration_seconds = 0.0;  ///< From the copy of the state to the end of all that belongs to the save.
  bool operator==(const SavedCheckpoint&) const = default;
};

/// What a rank says of itself; it becomes /status (contract.hpp). Fields that do not apply yet stay empty.
struct RankProgress {
  std::string phase;                  ///< "Rendezvous", "Loading", "Training", "Validating", "Saving", "Done"
  std::optional<std::int64_t> epoch;  ///< From 1.
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> step;  ///< Optimizer steps finished.
  std::optional<std::int64_t> total_steps;
  std::optional<double> loss;                ///< Mean over all ranks since the last report. May be NaN or infinite.
  std::optional<double> samples_per_second;  ///< Of the whole job.
  std::optional<double> eta_seconds;
  std::optional<double> accuracy;  ///< Of the last validation, in [0, 1].
  std::optional<SavedCheckpoint> checkpoint;
  std::string checkpoint_error;  ///< Why the last save failed while training goes on; empty when it did not.
  std::optional<CheckpointRecord> checkpoint_request;  ///< What came of the last request that has been answered.
  std::string waiting_for;
  bool operator==(const RankProgress&) const = default;
};

/// Why a rank ends, for the termination message.
struct RankEnd {
  int exit_code = 0;                     ///< contract::exit_*
  std::string reason;                    ///< One CamelCase word: "PeerLost", "Preempted", "InvalidData", ...
  std::string message;                   ///< What was tried, what came back, what to do.
  std::optional<std::int64_t> culprit;   ///< The global rank that caused it, where it is another one.
  std::optional<int> culprit_exit_code;  ///< How that one ended, where its launcher has said so.
  bool operator==(const RankEnd&) const = default;
};

/// One per rank process, made first thing in main: it also installs the SIGTERM handler. Any thread may call.
class RankLink {
 public:
  virtual ~RankLink() = default;
  /// Never blocks and never fails: a report that finds the pipe full is dropped for the next one. Also counts as a sign
  /// of life.
  virtual void report(const RankProgress& progress) = 0;
  /// A sign of life without news: called at least once a step. Cheap enough for that.
  virtual void beat() = 0;
  /// SIGTERM has arrived: save and stop at the next step boundary that all ranks agree on.
  [[nodiscard]] virtual bool is_stop_requested() const = 0;
  /// The checkpoint that this rank was asked for last, answered or not. What comes of it is reported. Only rank 0 is
  /// asked.
  [[nodiscard]] virtual std::optional<CheckpointRequest> checkpoint_request() const = 0;
  /// The launcher learnt that the group is broken (a peer died or hung): collectives will not complete any more. Set
  /// from any time on.
  [[nodiscard]] virtual std::optional<RankEnd> group_failure() const = 0;
  /// Tells the launcher why, then _exit(end.exit_code): no destructors, which could hang in a broken group.
  [[noreturn]] virtual void exit(const RankEnd& end) = 0;
};

/// The link that the launcher passed by environment, or, without a launcher (plain torchrun, a shell), one that only
/// minds SIGTERM.
[[nodiscard]] std::unique_ptr<RankLink> open_rank_link();

}  // namespace trainyard::rank

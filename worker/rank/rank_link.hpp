#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "worker/rank/checkpoint_request.hpp"

/// The rank's end of the socket pair between a rank and its launcher. Without torch, because the launcher includes it
/// too.
namespace trainyard::rank {

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string uri;
  Time time;
  std::int64_t bytes = 0;
  double duration_seconds = 0.0;  ///< From the copy of the state to the end of the whole save.
  bool operator==(const SavedCheckpoint&) const = default;
};

/// A rank's report of itself for /status (contract.hpp). Fields that do not apply yet are empty.
struct RankProgress {
  std::string phase;                  ///< "Rendezvous", "Loading", "Training", "Validating", "Saving", "Done"
  std::optional<std::int64_t> epoch;  ///< From 1.
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> step;  ///< Optimizer steps finished.
  std::optional<std::int64_t> total_steps;
  std::optional<double> loss;                ///< Mean over all ranks since the last report. May be NaN or infinite.
  std::optional<double> samples_per_second;  ///< Speed of the whole job.
  std::optional<double> eta_seconds;
  std::map<std::string, double> step_milliseconds;  ///< This rank's time per step, by the part of the step.
  std::optional<double> accuracy;                   ///< Accuracy of the last validation, in [0, 1].
  std::optional<SavedCheckpoint> checkpoint;
  std::string checkpoint_error;  ///< Why the last save failed while training goes on. Empty when it succeeded.
  std::optional<RequestRecord> checkpoint_request;  ///< The last request that was answered.
  std::string waiting_for;
  bool operator==(const RankProgress&) const = default;
};

/// Why a rank ends, for the termination message.
struct RankEnd {
  int exit_code = 0;                     ///< contract::exit_*
  std::string reason;                    ///< One CamelCase word: "PeerLost", "Preempted", "InvalidData", ...
  std::string message;                   ///< Says what was tried, what came back and what to do.
  std::optional<std::int64_t> culprit;   ///< Global rank whose failure caused this end, where it is another rank.
  std::optional<int> culprit_exit_code;  ///< Exit code of the culprit, where its launcher has reported one.
  bool operator==(const RankEnd&) const = default;
};

/// Each rank process opens one link, first thing in main, which also installs the SIGTERM handler. Any thread may call.
class RankLink {
 public:
  virtual ~RankLink() = default;
  /// Never blocks and never fails: a report is dropped when the socket is full, and the next one replaces it. A report
  /// is also a beat.
  virtual void report(const RankProgress& progress) = 0;
  /// Shows the launcher that training makes progress. Cheap; called at least once a step.
  virtual void beat() = 0;
  /// The training thread has waited for the other ranks in `collective` for long; empty: it waits no longer. Every beat
  /// carries it to the launcher, which finds out whether all ranks wait, but not in the same collective.
  virtual void set_long_wait(std::string_view collective) = 0;
  /// False for the link of a background thread, whose waits for other ranks are long in a healthy job too.
  [[nodiscard]] virtual bool is_of_training() const { return true; }
  /// SIGTERM has arrived: save and stop at the next step boundary that all ranks agree on.
  [[nodiscard]] virtual bool is_stop_requested() const = 0;
  /// The last request for a checkpoint, answered or not. Only rank 0 gets requests, and reports their outcome.
  [[nodiscard]] virtual std::optional<CheckpointRequest> checkpoint_request() const = 0;
  /// Set once the launcher reports that the group is broken (a peer died or hung). Collectives do not complete from
  /// then on.
  [[nodiscard]] virtual std::optional<RankEnd> group_failure() const = 0;
  /// Tells the launcher why, then _exit(end.exit_code): no destructors, which could hang in a broken group.
  [[noreturn]] virtual void exit(const RankEnd& end) = 0;
};

/// Forwards to `link`, which outlives the object, all but reports, beats and long waits. For the waits of a background
/// thread.
class SilentLink final : public RankLink {
 public:
  explicit SilentLink(RankLink& link) : link_{link} {}
  void report(const RankProgress& /*progress*/) override {}
  void beat() override {}
  void set_long_wait(std::string_view /*collective*/) override {}
  [[nodiscard]] bool is_of_training() const override { return false; }
  [[nodiscard]] bool is_stop_requested() const override { return link_.is_stop_requested(); }
  [[nodiscard]] std::optional<CheckpointRequest> checkpoint_request() const override {
    return link_.checkpoint_request();
  }
  [[nodiscard]] std::optional<RankEnd> group_failure() const override { return link_.group_failure(); }
  [[noreturn]] void exit(const RankEnd& end) override {
    link_.exit(end);
    std::abort();  // g++ 12 forgets [[noreturn]] when it devirtualises the call.
  }

 private:
  RankLink& link_;
};

/// The link to the launcher that TRAINYARD_RANK_LINK_FD names. Without a launcher (plain torchrun, a shell) the link
/// only handles SIGTERM, and its exit() writes torchrun's error file (end_report.hpp).
[[nodiscard]] std::unique_ptr<RankLink> open_rank_link();

}  // namespace trainyard::rank

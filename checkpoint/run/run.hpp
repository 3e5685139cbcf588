#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/restore.hpp"
#include "checkpoint/run/retention.hpp"
#include "checkpoint/run/run_context.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

struct Saved {
  std::int64_t step = 0;
  std::string uri;
  Time time;
  std::int64_t bytes = 0;
};

/// One run's checkpoints under one prefix, over plain host memory. Every call but the constructor is collective over
/// the communicator's ranks, and one thread of each rank may call.
class Run {
 public:
  explicit Run(RunContext context)
      : context_(std::move(context)), retention_(context_.store, context_.clock, context_.keep) {}

  /// As restore_state().
  [[nodiscard]] Result<std::optional<Restored>> restore(std::span<const HostEntry> entries);

  /// Puts what all ranks hold as the checkpoint of `step`; needs restore() before. A second save of the same step
  /// records only `values` and `is_final`: the step names the state. A save whose outcome was an error, and which
  /// may have completed the checkpoint all the same, is made anew under other keys. ErrorKind::conflict when a newer
  /// attempt of the job has taken over, invalid when another job has.
  [[nodiscard]] Result<Saved> save(std::span<const HostEntry> entries, const nlohmann::json& values, std::int64_t step,
                                   bool is_final);

  /// Writes a copy of the state to each node; needs restore() before, and a local tier. What failed there, and on which
  /// rank's node: it stops nothing. Empty: every node has its copy. Errors as of save() but for the storage's.
  [[nodiscard]] Result<std::string> save_copies(std::span<const HostEntry> entries, const nlohmann::json& values,
                                                std::int64_t step);

  /// That this run has claimed. Not collective; needs restore() before.
  [[nodiscard]] std::int64_t generation() const { return resumption_->claim.generation; }

  /// Removes what the checkpoints saved so far have made superfluous, and what killed runs left half written. Gives up
  /// soon after `stop` is requested; what could not be removed is tried again after the next save. Not collective: only
  /// rank 0's call does anything. May be called while another thread is in save(), by one thread at a time.
  void tidy_up(const std::stop_token& stop = {}) { retention_.tidy_up(stop); }

  /// Records that this run has ended in order, so that another job may go on from what it saved. Not collective: only
  /// rank 0's call does anything, and only after restore().
  [[nodiscard]] Result<void> end();

 private:
  /// But for the receipts.
  [[nodiscard]] Manifest plan_of(std::span<const HostEntry> entries, const nlohmann::json& values, std::int64_t step,
                                 bool is_final);
  [[nodiscard]] Result<void> record(const CheckpointId& id);
  [[nodiscard]] Result<void> commit(Manifest& manifest);

  RunContext context_;
  std::optional<Resumption> resumption_;  // Once restore() has succeeded.
  std::optional<Manifest> last_saved_;
  std::int64_t commit_count_ = 0;
  Retention retention_;
};

}  // namespace trainyard::checkpoint

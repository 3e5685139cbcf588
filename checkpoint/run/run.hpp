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

/// The checkpoints of one run under one prefix, over plain host memory. The calls are collective over the
/// communicator's ranks except where they say otherwise. One thread of each rank calls.
class Run {
 public:
  explicit Run(RunContext context)
      : context_{std::move(context)}, retention_{context_.store, context_.clock, context_.keep} {}

  /// As restore_state().
  [[nodiscard]] Result<std::optional<Restored>> restore(std::span<const HostEntry> entries);

  /// Saves what all ranks hold as the checkpoint of `step`; needs restore() before. A second save of one step writes
  /// only `values` and `is_final`, since the step determines the state. After an error, which may have completed the
  /// checkpoint all the same, the next save of the step writes all files again, under other keys. ErrorKind::conflict
  /// when a newer attempt of the job has claimed, invalid when another job has.
  [[nodiscard]] Result<Saved> save(std::span<const HostEntry> entries, const nlohmann::json& values, std::int64_t step,
                                   bool is_final);

  /// Writes a copy of the state to each node; needs a local tier, and restore() before. Returns the first failure of a
  /// node, with the rank of its keeper; empty if every node has its copy. Such a failure is not an error: training goes
  /// on. Errors: those of save() that are not the storage's.
  [[nodiscard]] Result<std::string> save_copies(std::span<const HostEntry> entries, const nlohmann::json& values,
                                                std::int64_t step);

  /// The generation that this run has claimed. Not collective; needs restore() before.
  [[nodiscard]] std::int64_t generation() const { return resumption_->claim.generation; }

  /// Retention::tidy_up() on rank 0; other ranks do nothing. Not collective. One thread at a time may call it, also
  /// while another thread is in save().
  void tidy_up(const std::stop_token& stop = {}) { retention_.tidy_up(stop); }

  /// Puts the end of this run's generation, so that another job may claim the next. Not collective: only rank 0's call
  /// does anything, and only after restore().
  [[nodiscard]] Result<void> end();

 private:
  /// The manifest of the checkpoint of `step`, to which the receipts are still to be added.
  [[nodiscard]] Manifest manifest_without_receipts(std::span<const HostEntry> entries, const nlohmann::json& values,
                                                   std::int64_t step, bool is_final);
  [[nodiscard]] Result<void> record(const CheckpointId& id);
  [[nodiscard]] Result<void> commit(Manifest& manifest);

  friend struct RunMemory;  // Shows tests what a run remembers.

  RunContext context_;
  std::optional<Resumption> resumption_;  // Set once restore() has succeeded.
  std::optional<Manifest> last_saved_;
  std::int64_t commit_count_ = 0;
  Retention retention_;
};

}  // namespace trainyard::checkpoint

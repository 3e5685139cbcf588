#pragma once

#include <chrono>
#include <optional>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"
#include "operator/plan/plan.hpp"
#include "operator/reconcile/executor.hpp"
#include "operator/reconcile/memory.hpp"
#include "operator/reconcile/observe.hpp"

namespace trainyard::reconcile {

/// Handles one job at a time: observes it in the caches, makes a plan, carries the plan out. The reconciler's
/// memory (refusals of the API server, for backoff) may be lost at any time. Any thread may call reconcile, but
/// never two at once for one key; the queue ensures that.
class Reconciler {
 public:
  /// `api`, `clock`, `caches` and `progress` outlive the reconciler.
  Reconciler(kube::Api& api, const Clock& clock, Caches& caches, const ProgressSource& progress,
             ReconcilerOptions options);
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  /// How soon to reconcile the job again although nothing changes; empty: on the next change. Zero only if this call
  /// has changed something that the next plan rests on. After an error the caller tries again, with backoff or after
  /// the error's `retry_after`. When somebody else wrote the job first (a 409 on its status), none of the plan's
  /// actions is carried out, and the job is planned for again from the version that was just read.
  [[nodiscard]] Result<std::optional<std::chrono::milliseconds>> reconcile(const control::ObjectKey& key);

 private:
  /// Reads the job from the server, because the cached job is older than our own last write. Decides nothing.
  Result<std::optional<std::chrono::milliseconds>> catch_up(const api::TrainingJob& job, const JobMemory& memory);

  /// Handles pods of an attempt that the cached job does not know. If the server knows the attempt, the cache was
  /// behind. If not, the pods are not the operator's, which records an attempt before it makes the first pod: later
  /// plans leave them out, so that they do not hold up the job.
  Result<std::optional<std::chrono::milliseconds>> judge_pods_ahead(const plan::Observed& observed,
                                                                    const JobMemory& memory);

  Result<std::optional<std::chrono::milliseconds>> carry_out(const plan::Observed& observed, const plan::Plan& plan);

  /// True when the cache holds another version of the job, or no longer holds the job.
  [[nodiscard]] bool has_moved(const api::TrainingJob& job) const;

  /// True when a plan made now would rest on something else than `before`. Only then is the job reconciled again at
  /// once, so that no server, pod or author of a job can keep a worker busy with one job.
  [[nodiscard]] bool has_changed(const plan::Observed& before) const;

  const Clock& clock_;
  Caches& caches_;
  const ProgressSource& progress_;
  const ReconcilerOptions options_;  // executor_ keeps a reference
  Memory memory_;                    // executor_ keeps a reference
  Executor executor_;
};

}  // namespace trainyard::reconcile

#pragma once

#include "operator/plan/observed.hpp"
#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/memory.hpp"
#include "operator/reconcile/progress_source.hpp"
#include "operator/reconcile/reconciler_options.hpp"

namespace trainyard::reconcile {

/// Collects what the caches hold about `job`. Sends no request.
[[nodiscard]] plan::Observed observe(const api::TrainingJob& job, const Caches& caches, const JobMemory& memory,
                                     const ProgressSource& progress, const ReconcilerOptions& options);

}  // namespace trainyard::reconcile

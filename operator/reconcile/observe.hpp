#pragma once

#include <optional>
#include <string_view>

#include "api/training_job.hpp"
#include "operator/control/object_cache.hpp"
#include "operator/plan/observed.hpp"
#include "operator/plan/progress_report.hpp"
#include "operator/reconcile/memory.hpp"
#include "operator/reconcile/reconciler_options.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::reconcile {

/// The objects that the informers keep up to date. `nodes` and `mount_failures` stay empty where the operator may not
/// read them.
struct Caches {
  control::ObjectCache<api::TrainingJob> jobs;
  control::ObjectCache<resource::Pod> pods;          ///< With the label contract::label_job.
  control::ObjectCache<resource::Service> services;  ///< With the label contract::label_job.
  control::ObjectCache<resource::Node> nodes;
  control::ObjectCache<resource::MountFailure> mount_failures;  ///< Of any pod, ours or not.
};

/// Source of the jobs' last progress reports. Never blocks, because it returns what was polled last. Any thread may
/// call.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  [[nodiscard]] virtual std::optional<plan::ProgressReport> last_report(std::string_view job_uid) const = 0;
};

/// Collects what the caches hold about `job`. Sends no request.
[[nodiscard]] plan::Observed observe(const api::TrainingJob& job, const Caches& caches, const JobMemory& memory,
                                     const ProgressSource& progress, const ReconcilerOptions& options);

}  // namespace trainyard::reconcile

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "api/training_job.hpp"
#include "operator/control/object_cache.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/settings.hpp"
#include "operator/plan/observed.hpp"
#include "operator/plan/progress_report.hpp"
#include "operator/reconcile/memory.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::reconcile {

struct ReconcilerOptions {
  manifest::ClusterTraits traits = manifest::kubernetes_traits();
  manifest::Settings settings;
  std::string instance = "trainyard-operator";  ///< reportingInstance of events: this process.
  int pod_calls_at_once_max = 16;  ///< Concurrent requests about one job's pods: creates, deletes and gets.
  /// Called for a job for which an object was created, even if the reconcile fails afterwards. Any thread.
  std::function<void(const control::ObjectKey&)> on_creation;
};

/// The objects that the informers keep up to date. `nodes` and `mount_failures` stay empty where the operator may not
/// read them.
struct Caches {
  control::ObjectCache<api::TrainingJob> jobs;
  control::ObjectCache<resource::Pod> pods;          ///< With the label contract::label_job.
  control::ObjectCache<resource::Service> services;  ///< With the label contract::label_job.
  control::ObjectCache<resource::Node> nodes;
  control::ObjectCache<resource::MountFailure> mount_failures;  ///< Failures of any pod, ours or not.
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

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/training_job.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/control/object_cache.hpp"
#include "operator/kube/api.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/settings.hpp"
#include "operator/reconcile/progress_source.hpp"
#include "operator/resource/mount_failure.hpp"
#include "operator/resource/node.hpp"
#include "operator/resource/pod.hpp"
#include "operator/resource/service.hpp"

namespace trainyard::reconcile {

/// What the informers keep up to date. `nodes` and `mount_failures` stay empty where the operator may not read them.
struct Caches {
  control::ObjectCache<api::TrainingJob> jobs;
  control::ObjectCache<resource::Pod> pods;          ///< With the label contract::label_job.
  control::ObjectCache<resource::Service> services;  ///< With the label contract::label_job.
  control::ObjectCache<resource::Node> nodes;
  control::ObjectCache<resource::MountFailure> mount_failures;  ///< Of any pod, ours or not.
};

struct ReconcilerOptions {
  manifest::ClusterTraits traits = manifest::kubernetes_traits();
  manifest::Settings settings;
  std::string instance = "trainyard-operator";  ///< reportingInstance of events: this process.
  int pod_calls_at_once_max = 16;  ///< Requests about one job's pods (creates, deletes, questions) under way together.
  /// Called for a job of which an object was created, also where the reconcile fails afterwards. Any thread.
  std::function<void(const control::ObjectKey&)> on_creation;
};

/// One decision for one job at a time: observe from the caches, make a plan, carry it out. Keeps no truth of its own:
/// what it remembers (refusals of the API server, for backoff) may be lost at any time. Any thread may call reconcile,
/// but never two at once for one key (the queue sees to that).
class Reconciler {
 public:
  /// `api`, `clock`, `caches` and `progress` outlive the reconciler.
  Reconciler(kube::Api& api, const Clock& clock, Caches& caches, const ProgressSource& progress,
             ReconcilerOptions options);
  ~Reconciler();
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  /// How soon the job is to be looked at again although nothing changes; empty: on the next change. Zero only where
  /// this call has changed what the next plan rests on. An error means: again, with backoff (or after its
  /// `retry_after`).
  [[nodiscard]] Result<std::optional<std::chrono::milliseconds>> reconcile(const control::ObjectKey& key);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainyard::reconcile

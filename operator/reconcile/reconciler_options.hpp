#pragma once

#include <functional>
#include <string>

#include "operator/control/object_cache.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::reconcile {

struct ReconcilerOptions {
  manifest::ClusterTraits traits = manifest::kubernetes_traits();
  manifest::Settings settings;
  std::string instance = "trainyard-operator";  ///< reportingInstance of events: this process.
  int pod_calls_at_once_max = 16;  ///< Concurrent requests about one job's pods: creates, deletes and gets.
  /// Called for a job for which an object was created, even if the reconcile fails afterwards. Any thread.
  std::function<void(const control::ObjectKey&)> on_creation;
};

}  // namespace trainyard::reconcile

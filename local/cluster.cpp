#include "local/cluster.hpp"

#include "common/check.hpp"
#include "local/admission.hpp"
#include "operator/manifest/request_token.hpp"

namespace trainyard::local {
namespace {

manager::ControllerOptions controller_options(LoopbackPorts& ports, const ClusterOptions& options) {
  manager::ControllerOptions controller;
  controller.is_watching_nodes = false;  // The only node is this machine: it cannot be lost without us.
  controller.workers = 2;
  controller.poller = options.poller;
  controller.reconciler.traits.address_of = [&ports](const manifest::PodPlace& place) {
    return ports.address_of(place);
  };
  // Never pulled: ProcessKubelet runs the worker program instead.
  controller.reconciler.settings.worker_image_cpu = "trainyard-worker";
  controller.reconciler.settings.worker_image_cuda = "trainyard-worker";
  controller.reconciler.settings.user_ids = manifest::UserIds::process;
  controller.reconciler.settings.request_key = manifest::make_request_key();
  // Short intervals: a user watches, and calls to the API server in memory cost nothing.
  controller.reconciler.settings.progress_interval = std::chrono::seconds{1};
  controller.reconciler.instance = "trainyard";
  return controller;
}

}  // namespace

Cluster::Cluster(const Clock& clock, ClusterOptions options)
    : api_{clock, {.admission = training_job_admission()}},
      kubelet_{api_, clock, options.kubelet},
      controller_{api_, clock, controller_options(ports_, options), counters_} {}

}  // namespace trainyard::local

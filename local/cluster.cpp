#include "local/cluster.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/check.hpp"
#include "common/file_descriptor.hpp"
#include "local/memory_api.hpp"
#include "operator/manifest/request_token.hpp"

namespace trainyard::local {
namespace {

/// Below the ports that Linux uses for outgoing connections (net.ipv4.ip_local_port_range), so that no connection takes
/// a port between our check and the pod's bind.
constexpr std::uint16_t port_min = 15'000;
constexpr std::uint16_t port_max = 32'000;

bool is_free(std::uint16_t port) {
  const FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  // Listeners bind to any address, so any address must be free.
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_ANY)}, .sin_zero = {}};
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

manager::ControllerOptions controller_options(LoopbackPorts& ports, const ClusterOptions& options) {
  manager::ControllerOptions controller;
  controller.is_watching_nodes = false;  // The only node is this machine: it cannot be lost without us.
  controller.workers = 2;
  controller.poller = options.poller;
  controller.reconciler.traits.address_of = [&ports, seats = options.kubelet.seats](const manifest::PodPlace& place) {
    manifest::PodAddress address = ports.address_of(place);
    if (const auto index = static_cast<std::size_t>(place.pod_index); index < seats.size())
      address.host = seats[index].address;
    return address;
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

manifest::PodAddress LoopbackPorts::address_of(const manifest::PodPlace& place) {
  const std::scoped_lock lock{mutex_};
  const auto [entry, is_new] = addresses_.try_emplace(place.name_space + "/" + place.pod);
  if (is_new) {
    entry->second = {.host = "127.0.0.1",
                     .master_port = free_port(),
                     .store_port = free_port(),
                     .peer_port = free_port(),
                     .status_port = free_port()};
  }
  return entry->second;
}

std::uint16_t LoopbackPorts::free_port() {
  std::uniform_int_distribution<std::uint16_t> any{port_min, port_max};
  // Practically never fails: there are 17,000 ports, and a pod takes four.
  for (int tries = 0; tries < 100'000; ++tries) {
    const std::uint16_t port = any(random_);
    if (!given_.contains(port) && is_free(port)) {
      given_.insert(port);
      return port;
    }
  }
  check(false, "a machine has a free port");
  return 0;
}

Cluster::Cluster(const Clock& clock, ClusterOptions options)
    : api_{clock, {.admission = training_job_admission()}},
      kubelet_{api_, clock, options.kubelet},
      controller_{api_, clock, controller_options(ports_, options), counters_} {}

}  // namespace trainyard::local

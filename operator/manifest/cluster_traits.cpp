#include "operator/manifest/cluster_traits.hpp"

#include <fmt/format.h>

#include "api/contract.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::manifest {
namespace {

std::optional<std::string> url_of(const ClusterTraits& traits, const api::TrainingJob& job, const resource::Pod& pod,
                                  std::string_view path) {
  const auto numbers = pod_numbers(job, pod.metadata.name);
  if (pod.pod_ip.empty() || !numbers) return std::nullopt;
  const PodPlace place = place_of(job, numbers->attempt, numbers->pod_index);
  const bool is_ipv6 = pod.pod_ip.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(is_ipv6 ? "http://[{}]:{}{}" : "http://{}:{}{}"), pod.pod_ip,
                     traits.address_of(place).status_port, path);
}

}  // namespace

ClusterTraits kubernetes_traits() {
  return {.address_of = [](const PodPlace& place) {
    return PodAddress{.host = fmt::format("{}.{}.{}.svc", place.pod, place.service, place.name_space),
                      .master_port = contract::default_master_port,
                      .store_port = contract::default_store_port,
                      .peer_port = contract::default_peer_port,
                      .status_port = contract::default_status_port};
  }};
}

std::optional<std::string> status_url(const ClusterTraits& traits, const api::TrainingJob& job,
                                      const resource::Pod& pod) {
  return url_of(traits, job, pod, contract::status_path);
}

std::optional<std::string> request_url(const ClusterTraits& traits, const api::TrainingJob& job,
                                       const resource::Pod& pod) {
  return url_of(traits, job, pod, contract::checkpoint_request_path);
}

}  // namespace trainyard::manifest

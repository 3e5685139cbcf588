#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "operator/manifest/cluster_traits.hpp"

namespace trainyard::local {

/// Addresses of pods that are processes of this machine: 127.0.0.1, and ports that were free when they were assigned.
/// No port is assigned twice. Any thread may call.
class LoopbackPorts {
 public:
  /// The address of the pod at `place`; equal places always get equal addresses.
  [[nodiscard]] manifest::PodAddress address_of(const manifest::PodPlace& place);

 private:
  std::uint16_t free_port();  // Needs mutex_.

  std::mutex mutex_;                                       // guards everything below
  std::map<std::string, manifest::PodAddress> addresses_;  // by namespace/pod
  std::set<std::uint16_t> given_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace trainyard::local

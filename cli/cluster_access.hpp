#pragma once

#include <memory>
#include <string>

#include "common/result.hpp"
#include "operator/kube/http_api.hpp"

namespace trainyard::cli {

/// Which cluster is meant, as kubectl would be told.
struct ClusterChoice {
  std::string name_space;  ///< Empty: the context's.
  std::string kubeconfig;  ///< Empty: $KUBECONFIG, ~/.kube/config.
  std::string context;     ///< Empty: the current one.

  /// Whether a cluster is meant and no run of this machine.
  [[nodiscard]] bool is_named() const { return !name_space.empty() || !kubeconfig.empty() || !context.empty(); }
};

struct ClusterAccess {
  std::unique_ptr<kube::HttpApi> api;
  std::string name_space;
};

/// Does not connect yet. `nothing_here` begins the sentence when there is no cluster either.
[[nodiscard]] Result<ClusterAccess> open_cluster(const ClusterChoice& choice, const std::string& nothing_here);

}  // namespace trainyard::cli

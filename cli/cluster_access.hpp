#pragma once

#include <memory>
#include <string>

#include "common/result.hpp"
#include "operator/kube/http_api.hpp"

namespace trainyard::cli {

/// The user's options that choose a cluster and a namespace, as kubectl has them.
struct ClusterChoice {
  std::string name_space;  ///< Empty: the context's.
  std::string kubeconfig;  ///< Empty: $KUBECONFIG, ~/.kube/config.
  std::string context;     ///< Empty: the current one.

  /// True if the user chose a cluster, so that runs on this machine are not looked at.
  [[nodiscard]] bool is_named() const { return !name_space.empty() || !kubeconfig.empty() || !context.empty(); }
};

struct ClusterAccess {
  std::unique_ptr<kube::HttpApi> api;
  std::string name_space;
};

/// Reads the kubeconfig; does not connect yet. `nothing_here` says that this machine has no such run: it begins the
/// error for a missing kubeconfig, unless the user chose a cluster.
[[nodiscard]] Result<ClusterAccess> open_cluster(const ClusterChoice& choice, const std::string& nothing_here);

}  // namespace trainyard::cli

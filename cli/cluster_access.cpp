#include "cli/cluster_access.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "common/try.hpp"
#include "operator/kube/config_sources.hpp"

namespace trainyard::cli {

Result<ClusterAccess> open_cluster(const ClusterChoice& choice, const std::string& nothing_here) {
  const std::filesystem::path file =
      choice.kubeconfig.empty() ? kube::default_kubeconfig() : std::filesystem::path{choice.kubeconfig};
  auto config = kube::load_kubeconfig(file, choice.context);
  if (!config) {
    const std::string tried = choice.is_named() ? "cannot reach a cluster" : nothing_here + ", and no cluster to ask";
    return fail(config.error().kind, fmt::format("{}: {}", tried, config.error().message));
  }
  auto api = TRY(kube::HttpApi::make(*std::move(config)));
  std::string name_space = choice.name_space.empty() ? api->default_namespace() : choice.name_space;
  return ClusterAccess{.api = std::move(api), .name_space = std::move(name_space)};
}

}  // namespace trainyard::cli

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "operator/kube/credentials.hpp"

namespace trainyard::kube {

/// Reads `context` (empty: the current-context) from the kubeconfig `file`. The namespace is "default" if the context
/// has none. Paths of certificates and tokens are relative to the kubeconfig's folder. The user's credential plugin
/// runs here; its token is renewed later, its client certificate is not (docs/cluster.md, "How `trainyard` reaches a
/// cluster").
///
/// ErrorKind::io: a file cannot be read; invalid: an entry is missing, malformed or not supported; unauthorized,
/// timeout and unavailable: the plugin returned no credentials.
[[nodiscard]] Result<ClientConfig> load_kubeconfig(const std::filesystem::path& file, std::string_view context = {});

/// The file that kubectl would read: the first file in $KUBECONFIG that exists, else ~/.kube/config.
[[nodiscard]] std::filesystem::path default_kubeconfig();

struct ServiceAccountMount {
  std::filesystem::path folder = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::string host;  ///< KUBERNETES_SERVICE_HOST
  std::string port;  ///< KUBERNETES_SERVICE_PORT
};

/// The standard folder and environment of a pod's service account. Call before threads start.
[[nodiscard]] ServiceAccountMount service_account_mount();

/// The configuration by which a pod reaches its API server. ErrorKind::not_found if this process runs in no pod, io if
/// the mount lacks a file.
[[nodiscard]] Result<ClientConfig> load_service_account(const ServiceAccountMount& mount);

}  // namespace trainyard::kube

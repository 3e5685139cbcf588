#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"
#include "operator/kube/credentials.hpp"

namespace trainyard::kube {

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

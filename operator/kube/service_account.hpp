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

/// Where this process would find its service account: the standard folder and environment. Read before threads start.
[[nodiscard]] ServiceAccountMount service_account_mount();

/// How a pod reaches its API server. ErrorKind::not_found when this is no pod, io when the mount lacks a file.
[[nodiscard]] Result<ClientConfig> load_service_account(const ServiceAccountMount& mount);

}  // namespace trainyard::kube

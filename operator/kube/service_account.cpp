#include "operator/kube/service_account.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace trainyard::kube {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

}  // namespace

ServiceAccountMount service_account_mount() {
  ServiceAccountMount mount;
  mount.host = environment("KUBERNETES_SERVICE_HOST");
  mount.port = environment("KUBERNETES_SERVICE_PORT");
  return mount;
}

Result<ClientConfig> load_service_account(const ServiceAccountMount& mount) {
  if (mount.host.empty() || mount.port.empty()) {
    return fail(ErrorKind::not_found,
                "this process is in no pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): name a "
                "kubeconfig");
  }
  ClientConfig config;
  const bool is_ipv6 = mount.host.find(':') != std::string::npos;
  const std::string url =
      fmt::format("https://{}:{}", is_ipv6 ? fmt::format("[{}]", mount.host) : mount.host, mount.port);
  if (auto set = set_server(config, url); !set) return fail("the service account", set.error());
  auto authorities = AuthoritySource::of_file(mount.folder / "ca.crt");
  if (!authorities) return tl::unexpected{authorities.error()};
  config.authorities = *std::move(authorities);
  config.token = TokenSource::of_file(mount.folder / "token");
  if (auto token = config.token.token(); !token) return tl::unexpected{token.error()};
  auto name_space = read_file("the pod's namespace", mount.folder / "namespace");
  if (!name_space) return tl::unexpected{name_space.error()};
  config.name_space = *std::move(name_space);
  return config;
}

}  // namespace trainyard::kube

#include "operator/kube/service_account.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "common/try.hpp"

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
  config.authorities = TRY(AuthoritySource::of_file(mount.folder / "ca.crt"));
  config.token = TokenSource::of_file(mount.folder / "token");
  TRY(config.token.token());
  config.name_space = TRY(read_file("the pod's namespace", mount.folder / "namespace"));
  return config;
}

}  // namespace trainyard::kube

#include "operator/kube/config_sources.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

#include "api/yaml/yaml.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "operator/kube/exec_plugin.hpp"

namespace trainyard::kube {
namespace {

namespace fs = std::filesystem;

constexpr const char* default_namespace = "default";  // as in kubectl, for a context without a namespace

std::string scalar_of(const YAML::Node& map, const char* field) {
  const YAML::Node node = map[field];
  return node && node.IsScalar() ? node.Scalar() : std::string{};
}

/// The entry `name` of a list such as `clusters`, whose entries are `{name: X, cluster: {...}}`.
Result<YAML::Node> entry(const YAML::Node& root, const char* list, const char* field, const std::string& name) {
  const YAML::Node entries = root[list];
  if (entries && entries.IsSequence()) {
    for (const YAML::Node& candidate : entries) {
      if (!candidate.IsMap() || scalar_of(candidate, "name") != name) continue;
      const YAML::Node found = candidate[field];
      if (found && found.IsMap()) return found;
    }
  }
  return fail(ErrorKind::invalid, fmt::format("there is no {} named \"{}\"", field, name));
}

/// The contents of `<field>-data` (base64), or of the file that `<field>` names. Empty if neither is given.
Result<std::string> pem(const YAML::Node& map, const std::string& field, const fs::path& folder) {
  if (const std::string data = scalar_of(map, (field + "-data").c_str()); !data.empty()) {
    auto decoded = decode_base64(data);
    if (!decoded) return fail(field + "-data", decoded.error());
    return decoded;
  }
  const std::string file = scalar_of(map, field.c_str());
  if (file.empty()) return std::string{};
  return read_file(field, folder / file);
}

Result<AuthoritySource> authorities_of(const YAML::Node& cluster, const fs::path& folder) {
  const std::string file = scalar_of(cluster, "certificate-authority");
  if (scalar_of(cluster, "certificate-authority-data").empty() && !file.empty()) {
    return AuthoritySource::of_file(folder / file);
  }
  return pem(cluster, "certificate-authority", folder).map(AuthoritySource::of_text);
}

Result<void> refuse_unsupported(const YAML::Node& cluster, const YAML::Node& user) {
  if (const std::string skip = scalar_of(cluster, "insecure-skip-tls-verify"); !skip.empty() && skip != "false") {
    return fail(ErrorKind::invalid,
                "insecure-skip-tls-verify is refused: the server's certificate is always verified; give its "
                "certificate-authority instead");
  }
  for (const char* field : {"proxy-url", "tls-server-name"}) {
    if (cluster[field]) return fail(ErrorKind::invalid, fmt::format("the cluster's {} is not supported", field));
  }
  for (const char* field : {"auth-provider", "username", "password", "as", "as-uid", "as-groups"}) {
    if (user[field]) {
      return fail(
          ErrorKind::invalid,
          fmt::format("the user's {} is not supported; a client certificate, token, tokenFile or exec is", field));
    }
  }
  return {};
}

/// The extension of `cluster` for credential plugins; null if there is none.
Result<nlohmann::json> plugin_settings(const YAML::Node& cluster) {
  const YAML::Node extensions = cluster["extensions"];
  if (extensions && extensions.IsSequence()) {
    for (const YAML::Node& candidate : extensions) {
      if (candidate.IsMap() && scalar_of(candidate, "name") == "client.authentication.k8s.io/exec")
        return candidate["extension"] ? api::json_of(candidate["extension"]) : nlohmann::json{};
    }
  }
  return nlohmann::json{};
}

/// Runs the user's plugin once, and takes its token, its client certificate or both into `config`.
Result<void> ask_plugin(ClientConfig& config, const YAML::Node& user, const YAML::Node& cluster,
                        const fs::path& folder) {
  auto entry = TRY(
      api::json_of(user["exec"]).and_then([&](const nlohmann::json& exec) { return parse_exec_entry(exec, folder); }));
  auto settings = plugin_settings(cluster);
  if (!settings) return fail("the cluster's extensions", settings.error());
  ExecCluster told{
      .server = scalar_of(cluster, "server"), .ca_pem = config.authorities.pem(), .config = *std::move(settings)};
  const auto plugin = std::make_shared<ExecPlugin>(std::move(entry), std::move(told));
  auto credential = TRY(plugin->credential());
  if (!credential.token.empty()) config.token = TokenSource::of_plugin(plugin);
  if (config.certificate_pem.empty()) {
    config.certificate_pem = std::move(credential.certificate_pem);
    config.key_pem = std::move(credential.key_pem);
  }
  return {};
}

Result<ClientConfig> read_entries(const YAML::Node& root, std::string context_name, const fs::path& folder) {
  if (!root.IsMap()) return fail(ErrorKind::invalid, "it is not a kubeconfig");
  if (context_name.empty()) context_name = scalar_of(root, "current-context");
  if (context_name.empty()) return fail(ErrorKind::invalid, "it has no current-context");
  const auto context = TRY(entry(root, "contexts", "context", context_name));
  const auto cluster = TRY(entry(root, "clusters", "cluster", scalar_of(context, "cluster")));
  const auto user = TRY(entry(root, "users", "user", scalar_of(context, "user")));
  TRY(refuse_unsupported(cluster, user));

  ClientConfig config;
  const std::string name_space = scalar_of(context, "namespace");
  config.name_space = name_space.empty() ? default_namespace : name_space;
  TRY(set_server(config, scalar_of(cluster, "server")));
  struct Target {
    const YAML::Node& map;
    const char* field;
    std::string& value;
  };
  config.authorities = TRY(authorities_of(cluster, folder));
  const std::array<Target, 2> targets{
      {{user, "client-certificate", config.certificate_pem}, {user, "client-key", config.key_pem}}};
  for (const auto& [map, field, value] : targets) {
    value = TRY(pem(map, field, folder));
  }
  if (config.certificate_pem.empty() != config.key_pem.empty()) {
    return fail(ErrorKind::invalid, "client-certificate and client-key are given only together");
  }
  // As in kubectl, the file, which may be renewed, comes before the text, and the text before the plugin.
  const std::string token = scalar_of(user, "token");
  if (const std::string file = scalar_of(user, "tokenFile"); !file.empty()) {
    config.token = TokenSource::of_file(folder / file);
  } else if (!token.empty()) {
    config.token = TokenSource::of_text(token);
  } else if (const YAML::Node exec = user["exec"]; exec && !exec.IsNull()) {
    TRY(ask_plugin(config, user, cluster, folder));
  }
  return config;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

}  // namespace

Result<ClientConfig> load_kubeconfig(const fs::path& file, std::string_view context) {
  const auto text = TRY(read_file("the kubeconfig", file));
  const std::string where = fmt::format("the kubeconfig {}", file.string());
  try {
    auto config = read_entries(YAML::Load(text), std::string{context}, fs::absolute(file).parent_path());
    if (!config) return fail(where, config.error());
    return config;
  } catch (const YAML::Exception& malformed) {
    return fail(ErrorKind::invalid, fmt::format("{}: {}", where, malformed.what()));
  }
}

fs::path default_kubeconfig() {
  if (const char* listed = std::getenv("KUBECONFIG"); listed != nullptr) {
    std::istringstream files{listed};
    for (std::string file; std::getline(files, file, ':');) {
      std::error_code unused;
      if (!file.empty() && fs::exists(file, unused)) return file;
    }
  }
  const char* home = std::getenv("HOME");
  return fs::path{home == nullptr ? "" : home} / ".kube" / "config";
}

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

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/exec_entry.hpp"

namespace trainyard::kube {

/// What a credential plugin is told of its cluster. What client-go tells besides (a proxy, another server name, no
/// verification) stands in no kubeconfig that is taken here.
struct ExecCluster {
  std::string server;
  std::string ca_pem;     ///< Empty: none is given.
  nlohmann::json config;  ///< The cluster's extension named client.authentication.k8s.io/exec; null: none.
};

/// KUBERNETES_EXEC_INFO: the ExecCredential that asks.
[[nodiscard]] std::string make_exec_info(const ExecEntry& entry, const ExecCluster& cluster, bool is_interactive);

/// What a credential plugin gave: a token, a client certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string certificate_pem;
  std::string key_pem;
  std::optional<Time> expires_at;
  bool operator==(const ExecCredential&) const = default;
};

/// The ExecCredential that answers, as it stands on the plugin's standard output. ErrorKind::unauthorized when it is
/// none, of another version than `api_version`, or without anything to use; its message holds nothing of a secret.
[[nodiscard]] Result<ExecCredential> parse_exec_credential(std::string_view output, std::string_view api_version);

/// When to ask for another one in the place of one that was got at `asked_at`: shortly before it expires, but never so
/// soon that a plugin whose answers are all about to expire would be run at each request.
[[nodiscard]] Time renewal_time(const ExecCredential& credential, Time asked_at);

}  // namespace trainyard::kube

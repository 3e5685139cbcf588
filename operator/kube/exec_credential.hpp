#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/exec_entry.hpp"

namespace trainyard::kube {

/// The cluster that a credential plugin is told about. client-go also passes a proxy, another server name and no
/// verification; we refuse kubeconfigs with those.
struct ExecCluster {
  std::string server;
  std::string ca_pem;     ///< Empty if there is none.
  nlohmann::json config;  ///< The cluster's extension named client.authentication.k8s.io/exec; null if there is none.
};

/// The value of KUBERNETES_EXEC_INFO: the ExecCredential that asks for credentials.
[[nodiscard]] std::string make_exec_info(const ExecEntry& entry, const ExecCluster& cluster, bool is_interactive);

/// A credential plugin's answer: a token, a client certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string certificate_pem;
  std::string key_pem;
  std::optional<Time> expires_at;
  bool operator==(const ExecCredential&) const = default;
};

/// Reads the ExecCredential on a plugin's standard output. ErrorKind::unauthorized if it is malformed, of another
/// version than `api_version`, or has no credentials. The message contains no part of a secret.
[[nodiscard]] Result<ExecCredential> parse_exec_credential(std::string_view output, std::string_view api_version);

/// When to run the plugin again after an answer at `asked_at`: shortly before the credential expires. It is never so
/// soon that a plugin with very short-lived answers would run at each request.
[[nodiscard]] Time renewal_time(const ExecCredential& credential, Time asked_at);

}  // namespace trainyard::kube

#pragma once

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::kube {

enum class InteractiveMode { never, if_available, always };

/// The `exec` of a kubeconfig's user: a program that prints credentials.
struct ExecEntry {
  std::string_view api_version;  ///< client.authentication.k8s.io/v1 or v1beta1, for question and answer.
  std::string command;           ///< A name to find in PATH, or a path.
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< In addition to this process's own.
  std::string install_hint;                        ///< For users who lack the program; on one line.
  InteractiveMode interactive_mode = InteractiveMode::if_available;
  bool is_cluster_wanted = false;  ///< provideClusterInfo
};

/// A command with a slash is relative to the kubeconfig's `folder`. ErrorKind::invalid names the wrong field and what
/// it takes.
[[nodiscard]] Result<ExecEntry> parse_exec_entry(const nlohmann::json& exec, const std::filesystem::path& folder);

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

/// Makes a program's message part of one of our sentences: words with one blank between them, no control characters, no
/// full stop at the end. Words of more than `word_bytes_max` bytes become "...".
[[nodiscard]] std::string on_one_line(std::string_view text, std::size_t word_bytes_max = std::string_view::npos);

}  // namespace trainyard::kube

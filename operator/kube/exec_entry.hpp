#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace trainyard::kube

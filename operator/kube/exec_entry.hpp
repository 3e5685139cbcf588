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
  std::string_view api_version;  ///< In which it is asked and answers: client.authentication.k8s.io/v1 or v1beta1.
  std::string command;           ///< A name to look for in PATH, or else a path.
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< Beside this process's own.
  std::string install_hint;                        ///< For people who lack the program; on one line.
  InteractiveMode interactive_mode = InteractiveMode::if_available;
  bool is_cluster_wanted = false;  ///< provideClusterInfo
};

/// A command with a slash is relative to `folder`, the kubeconfig's. ErrorKind::invalid names the field that is wrong
/// and says what it takes.
[[nodiscard]] Result<ExecEntry> parse_exec_entry(const nlohmann::json& exec, const std::filesystem::path& folder);

}  // namespace trainyard::kube

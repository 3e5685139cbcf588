#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "operator/kube/credentials.hpp"

namespace trainyard::kube {

/// What the kubeconfig `file` says of `context` (empty: its current-context): server, CA, client certificate or token,
/// each inline or as a file that is relative to the kubeconfig's folder. ErrorKind::io when a file cannot be read;
/// invalid names the entry that is missing, malformed, or asks for what is not done here: insecure-skip-tls-verify,
/// tls-server-name, exec, auth-provider, a password, proxy-url, impersonation.
[[nodiscard]] Result<ClientConfig> load_kubeconfig(const std::filesystem::path& file, std::string_view context = {});

/// The file that kubectl would read: the first of $KUBECONFIG that exists, else ~/.kube/config.
[[nodiscard]] std::filesystem::path default_kubeconfig();

}  // namespace trainyard::kube

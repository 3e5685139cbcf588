#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "operator/kube/credentials.hpp"

namespace trainyard::kube {

/// Reads `context` (empty: the current-context) from the kubeconfig `file`: namespace ("default" if there is none),
/// server, CA, client certificate or token. Certificates and tokens are inline, or in files relative to the
/// kubeconfig's folder; the CA's and the token's file are read again later. Runs the user's credential plugin (exec,
/// client.authentication.k8s.io/v1 or v1beta1) here, and again when its token expires; takes its client certificate
/// once. Like kubectl, runs no plugin for a user with a token. ErrorKind::io when a file cannot be read; invalid names
/// an entry that is missing, malformed or not supported: insecure-skip-tls-verify, tls-server-name, auth-provider, a
/// password, proxy-url, impersonation; unauthorized, timeout and unavailable say why the plugin returned no
/// credentials.
[[nodiscard]] Result<ClientConfig> load_kubeconfig(const std::filesystem::path& file, std::string_view context = {});

/// The file that kubectl would read: the first file in $KUBECONFIG that exists, else ~/.kube/config.
[[nodiscard]] std::filesystem::path default_kubeconfig();

}  // namespace trainyard::kube

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "operator/kube/credentials.hpp"

namespace trainyard::kube {

/// Reads `context` (empty: the current-context) from the kubeconfig `file`: namespace ("default" where it names none),
/// server, CA, client certificate or token. Certificates and tokens stand inline or in files, relative to the
/// kubeconfig's folder; the files of the CA and of the token are read again later. A user's exec, a credential plugin
/// of client.authentication.k8s.io/v1 or v1beta1, is run here and again when its token expires; its client certificate
/// is taken once. As with kubectl no plugin is run for a user with a token of its own. ErrorKind::io when a file cannot
/// be read; invalid names the entry that is missing, malformed, or asks for what is not done here:
/// insecure-skip-tls-verify, tls-server-name, auth-provider, a password, proxy-url, impersonation. unauthorized,
/// timeout, unavailable: the plugin gave no credentials, and why.
[[nodiscard]] Result<ClientConfig> load_kubeconfig(const std::filesystem::path& file, std::string_view context = {});

/// The file that kubectl would read: the first of $KUBECONFIG that exists, else ~/.kube/config.
[[nodiscard]] std::filesystem::path default_kubeconfig();

}  // namespace trainyard::kube

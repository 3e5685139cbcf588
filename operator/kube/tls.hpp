#pragma once

#include <openssl/types.h>

#include <string>

#include "common/result.hpp"
#include "operator/kube/credentials.hpp"

namespace trainyard::kube {

/// Why the last handshake over a context refused the server's certificate, in OpenSSL's words; empty: it did not.
struct CertificateVerdict {
  std::string refusal;
};

/// Makes `context` trust exactly `config`'s authorities, demand a certificate for `config.host`, and show our client
/// certificate. `verdict` must outlive the context; each handshake overwrites it. ErrorKind::invalid when a PEM text is
/// malformed.
[[nodiscard]] Result<void> set_up_tls(SSL_CTX* context, const ClientConfig& config, CertificateVerdict& verdict);

}  // namespace trainyard::kube

#pragma once

#include <openssl/types.h>

#include <string>

#include "common/result.hpp"
#include "operator/kube/credentials.hpp"

namespace trainyard::kube {

/// Why the last handshake refused the server's certificate, in OpenSSL's words; empty if it did not.
struct CertificateCheck {
  std::string refusal;
};

/// ErrorKind::invalid when `pem` holds no certificate.
[[nodiscard]] Result<void> check_authorities(const std::string& pem);

/// Makes `context` trust exactly the authorities `ca_pem` (empty: the machine's own), demand a certificate for
/// `config.host`, and show our client certificate. `certificate_check` must outlive the context; each handshake
/// overwrites it. ErrorKind::invalid when a PEM text is malformed.
[[nodiscard]] Result<void> set_up_tls(SSL_CTX* context, const ClientConfig& config, const std::string& ca_pem,
                                      CertificateCheck& certificate_check);

}  // namespace trainyard::kube

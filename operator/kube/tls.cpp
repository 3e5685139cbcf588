#include "operator/kube/tls.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>

#include "common/check.hpp"
#include "common/try.hpp"

namespace trainyard::kube {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<BIO> reader_of(const std::string& pem) {
  return Owned<BIO>{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
}

std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no PEM block was found" : reason;
}

/// Adds the certificates of `pem` to `store`. Fails if there is none.
Result<void> add_authorities(X509_STORE* store, const std::string& pem) {
  const Owned<BIO> reader = reader_of(pem);
  int added = 0;
  while (const Owned<X509> authority{PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)}) {
    if (X509_STORE_add_cert(store, authority.get()) == 1) ++added;
  }
  if (added == 0)
    return fail(ErrorKind::invalid, fmt::format("the API server's CA is not a PEM certificate: {}", openssl_reason()));
  ERR_clear_error();  // OpenSSL reports the end of the text as an error
  return {};
}

Result<void> trust_authorities(SSL_CTX* context, const std::string& ca_pem) {
  if (!ca_pem.empty()) return add_authorities(SSL_CTX_get_cert_store(context), ca_pem);
  SSL_CTX_set_default_verify_paths(context);
  return {};
}

Result<void> show_certificate(SSL_CTX* context, const std::string& certificate_pem, const std::string& key_pem) {
  if (certificate_pem.empty()) return {};
  const Owned<BIO> reader = reader_of(certificate_pem);
  const Owned<X509> certificate{PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)};
  if (!certificate || SSL_CTX_use_certificate(context, certificate.get()) != 1) {
    return fail(ErrorKind::invalid, fmt::format("the client certificate cannot be used: {}", openssl_reason()));
  }
  while (X509* intermediate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    SSL_CTX_add0_chain_cert(context, intermediate);  // owns it now
  }
  ERR_clear_error();
  const Owned<BIO> key_reader = reader_of(key_pem);
  const Owned<EVP_PKEY> key{PEM_read_bio_PrivateKey(key_reader.get(), nullptr, nullptr, nullptr)};
  if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return fail(ErrorKind::invalid,
                fmt::format("the client key cannot be used with the client certificate: {}", openssl_reason()));
  }
  return {};
}

int record_certificate_check(int is_trusted, X509_STORE_CTX* chain) {
  const auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* certificate_check = static_cast<CertificateCheck*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  certificate_check->refusal = is_trusted == 1 ? "" : X509_verify_cert_error_string(X509_STORE_CTX_get_error(chain));
  return is_trusted;
}

}  // namespace

Result<void> check_authorities(const std::string& pem) {
  const Owned<X509_STORE> store{X509_STORE_new()};
  return add_authorities(store.get(), pem);
}

Result<void> set_up_tls(SSL_CTX* context, const ClientConfig& config, const std::string& ca_pem,
                        CertificateCheck& certificate_check) {
  TRY(trust_authorities(context, ca_pem));
  TRY(show_certificate(context, config.certificate_pem, config.key_pem));
  X509_VERIFY_PARAM* expected = SSL_CTX_get0_param(context);
  const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(expected, config.host.c_str()) == 1;
  if (!is_address) {
    ERR_clear_error();
    X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    check(X509_VERIFY_PARAM_set1_host(expected, config.host.c_str(), 0) == 1, "a host name that OpenSSL can hold");
  }
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Frees the buffers of an idle connection.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_app_data(context, &certificate_check);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, record_certificate_check);
  return {};
}

}  // namespace trainyard::kube

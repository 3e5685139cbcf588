#include "tests/fakes/certificate_authority.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/check.hpp"

namespace trainyard::fakes {
namespace {

constexpr long day_seconds = 86'400;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<EVP_PKEY> make_key() {
  return Owned<EVP_PKEY>{EVP_EC_gen("P-256")};
}

void add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  check(extension != nullptr, "a certificate extension that OpenSSL knows");
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Owned<X509> make_certificate(const std::string& common_name, EVP_PKEY* key) {
  Owned<X509> certificate{X509_new()};
  X509_set_version(certificate.get(), 2);
  std::int64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_int64(X509_get_serialNumber(certificate.get()), serial & INT64_MAX);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -day_seconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), day_seconds);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  return certificate;
}

template <typename Write>
std::string written(Write write) {
  const Owned<BIO> bio{BIO_new(BIO_s_mem())};
  write(bio.get());
  char* bytes = nullptr;
  const long count = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<std::size_t>(count)};
}

}  // namespace

struct CertificateAuthority::Keys {
  Owned<EVP_PKEY> key;
  Owned<X509> certificate;
};

CertificateAuthority::CertificateAuthority(const std::string& name) : keys_{std::make_unique<Keys>()} {
  keys_->key = make_key();
  keys_->certificate = make_certificate(name, keys_->key.get());
  X509* own = keys_->certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  add_extension(own, own, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(own, own, NID_subject_key_identifier, "hash");
  X509_sign(own, keys_->key.get(), EVP_sha256());
  pem_ = written([&](BIO* bio) { PEM_write_bio_X509(bio, own); });
}

CertificateAuthority::~CertificateAuthority() = default;

Certificate CertificateAuthority::issue(const std::string& common_name,
                                        const std::string& subject_alternative_name) const {
  const Owned<EVP_PKEY> key = make_key();
  const Owned<X509> certificate = make_certificate(common_name, key.get());
  X509* issuer = keys_->certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
  if (!subject_alternative_name.empty()) {
    add_extension(certificate.get(), issuer, NID_subject_alt_name, subject_alternative_name);
  }
  X509_sign(certificate.get(), keys_->key.get(), EVP_sha256());
  return {written([&](BIO* bio) { PEM_write_bio_X509(bio, certificate.get()); }),
          written([&](BIO* bio) { PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr); })};
}

}  // namespace trainyard::fakes

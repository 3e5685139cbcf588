#pragma once

#include <memory>
#include <string>

namespace trainyard::fakes {

struct Certificate {
  std::string certificate_pem;
  std::string key_pem;
};

/// A certificate authority made for one test run: EC keys, certificates valid for a day.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);
  ~CertificateAuthority();
  CertificateAuthority(const CertificateAuthority&) = delete;
  CertificateAuthority& operator=(const CertificateAuthority&) = delete;

  [[nodiscard]] const std::string& pem() const { return pem_; }
  /// A certificate for a server with `subject_alternative_name` ("IP:127.0.0.1", "DNS:localhost"), or for a client
  /// (empty).
  [[nodiscard]] Certificate issue(const std::string& common_name,
                                  const std::string& subject_alternative_name = {}) const;

 private:
  struct Keys;
  std::unique_ptr<Keys> keys_;
  std::string pem_;
};

}  // namespace trainyard::fakes

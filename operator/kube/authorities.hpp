#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/result.hpp"

namespace trainyard::kube {

/// The certificate authorities that vouch for a server: the machine's own, a fixed text, or a file that another program
/// renews (the kubelet, for service accounts). Copies share the file's last contents. Any thread may call.
class AuthoritySource {
 public:
  /// The machine's own authorities.
  AuthoritySource() = default;
  [[nodiscard]] static AuthoritySource of_text(std::string pem);
  /// ErrorKind::io when the file cannot be read now.
  [[nodiscard]] static Result<AuthoritySource> of_file(const std::filesystem::path& file);

  /// The certificates in PEM; empty: the machine's own. Reads a file at every call, so that the next connection trusts
  /// a renewed authority. If the file can no longer be read, or holds no certificate, returns its last good contents
  /// and logs a warning once.
  [[nodiscard]] std::string pem() const;

 private:
  struct File;

  std::string text_;
  std::shared_ptr<File> file_;
};

}  // namespace trainyard::kube

#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/result.hpp"

namespace trainyard::kube {

/// The authorities that vouch for a server: the machine's own, fixed ones, or those of a file that somebody else renews
/// (the kubelet, for service accounts). Copies share what the file held last. Any thread may call.
class AuthoritySource {
 public:
  /// The machine's own.
  AuthoritySource() = default;
  [[nodiscard]] static AuthoritySource of_text(std::string pem);
  /// ErrorKind::io when the file cannot be read now.
  [[nodiscard]] static Result<AuthoritySource> of_file(const std::filesystem::path& file);

  /// The certificates; empty: the machine's own. A file is read at every call, so that a renewed authority is believed
  /// from the next connection on. Where the file cannot be read any more, or holds no certificate, what it held before
  /// is given, and a warning logged once.
  [[nodiscard]] std::string pem() const;

 private:
  struct File;

  std::string text_;
  std::shared_ptr<File> file_;
};

}  // namespace trainyard::kube

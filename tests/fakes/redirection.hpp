#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "common/check.hpp"
#include "common/file_descriptor.hpp"

namespace trainyard::fakes {

/// Replaces one of this process's standard descriptors by a file until the destructor.
class Redirection {
 public:
  Redirection(int standard, const std::filesystem::path& file, int flags)
      : standard_{standard}, former_{::fcntl(standard, F_DUPFD_CLOEXEC, 3)} {
    const FileDescriptor opened{::open(file.c_str(), flags | O_CREAT | O_NOCTTY | O_CLOEXEC, 0600)};
    check(::dup2(opened.get(), standard_) == standard_, "a file that takes the place of a standard descriptor");
  }
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;
  ~Redirection() {
    if (former_) {
      ::dup2(former_.get(), standard_);
    } else {
      ::close(standard_);
    }
  }

 private:
  int standard_;
  FileDescriptor former_;
};

}  // namespace trainyard::fakes

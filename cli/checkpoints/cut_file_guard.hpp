#pragma once

#include <string>

namespace trainyard::cli {

/// While one lives, a look into a mapped file that somebody cuts off meanwhile (SIGBUS) ends the program with a
/// sentence and exit code 1, and not with a crash. One at a time in a process.
class CutFileGuard {
 public:
  /// `path`: the file that is mapped, for the sentence.
  explicit CutFileGuard(const std::string& path);
  CutFileGuard(const CutFileGuard&) = delete;
  CutFileGuard& operator=(const CutFileGuard&) = delete;
  ~CutFileGuard();
};

}  // namespace trainyard::cli

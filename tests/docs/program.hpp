#pragma once

#include <optional>
#include <string>
#include <vector>

#include "local/process_group.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::docs {

/// A program that runs in a folder of its own. It is killed when it goes out of scope.
class Program {
 public:
  /// Once. `environment` is all that it gets.
  void start(const std::vector<std::string>& arguments, std::vector<std::string> environment);
  /// Its exit code, once it has ended. -1, and the test fails, if that takes longer than any program that works.
  [[nodiscard]] int wait();
  /// All that it has printed on both streams.
  [[nodiscard]] std::string out() const { return fakes::text_of(folder_.file("out")); }
  [[nodiscard]] const fakes::TemporaryFolder& folder() const { return folder_; }

 private:
  const fakes::TemporaryFolder folder_;
  std::optional<local::ProcessGroup> group_;
};

}  // namespace trainyard::docs

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
  /// Starts the program; called once. The program gets only the variables in `environment`.
  void start(const std::vector<std::string>& arguments, std::vector<std::string> environment);
  /// Waits for the end and returns the exit code; -1, and the test fails, after a generous time limit.
  [[nodiscard]] int wait();
  /// The output on both streams.
  [[nodiscard]] std::string out() const { return fakes::text_of(folder_.file("out")); }
  [[nodiscard]] const fakes::TemporaryFolder& folder() const { return folder_; }

 private:
  const fakes::TemporaryFolder folder_;
  std::optional<local::ProcessGroup> group_;
};

}  // namespace trainyard::docs

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "operator/kube/exec_credential.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::kube {

/// A credential plugin: a shell script in a folder of its own, in which it runs. `$n` is the number of the run, from 1;
/// `give FIELDS` prints an ExecCredential with these fields in its status, and `token TEXT` one with a token.
class PluginProgram {
 public:
  explicit PluginProgram(const std::string& script) {
    std::filesystem::permissions(folder_.write("plugin", prelude + script), std::filesystem::perms::owner_all);
  }

  [[nodiscard]] ExecEntry entry() const {
    ExecEntry entry;
    entry.api_version = "client.authentication.k8s.io/v1";
    entry.command = folder_.file("plugin").string();
    entry.interactive_mode = InteractiveMode::never;
    return entry;
  }
  [[nodiscard]] std::ptrdiff_t run_count() const {
    const std::string runs = text("runs");
    return std::count(runs.begin(), runs.end(), '\n');
  }
  /// The contents of a file that the script wrote.
  [[nodiscard]] std::string text(const std::string& file) const { return fakes::text_of(folder_.file(file)); }
  [[nodiscard]] const fakes::TemporaryFolder& folder() const { return folder_; }

 private:
  static constexpr const char* prelude = R"sh(#!/bin/sh
cd "$(dirname "$0")"
echo run >> runs
n=$(($(wc -l < runs)))
give() {
  printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {%s}}' "$1"
}
token() { give "\"token\": \"$1\""; }
)sh";

  fakes::TemporaryFolder folder_;
};

}  // namespace trainyard::kube

#pragma once

#include <filesystem>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::cli {

struct InitModelOptions {
  std::string name;    ///< As in training.model.name: "my_net".
  std::string folder;  ///< Empty: the name with dashes, in the current folder.
  std::string prefix;  ///< The folder of Trainyard's installation, for the commands that are printed. Empty: not known.
};

/// The installation that `program` is in, such as ~/trainyard of ~/trainyard/bin/trainyard. Empty where there is no
/// package for CMake, as in a build folder.
[[nodiscard]] std::string installation_of(const std::filesystem::path& program);

/// Writes a project with a model of one's own that builds and trains as it is: examples/own-model under another name.
/// A folder that has files already is left as it is. Returns an exit code.
int init_model(const InitModelOptions& options, std::ostream& out, std::ostream& errors);

struct OwnModelFile {
  std::string_view name;
  std::string_view text;
};

/// The files of examples/own-model, which are part of this program.
[[nodiscard]] std::span<const OwnModelFile> own_model_files();

}  // namespace trainyard::cli

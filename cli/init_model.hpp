#pragma once

#include <iosfwd>
#include <string>

namespace trainyard::cli {

struct InitModelOptions {
  std::string name;    ///< As in training.model.name: "my_net".
  std::string folder;  ///< Empty: the name with dashes, in the current folder.
};

/// Writes a project with a model of one's own that builds and trains as it is: examples/own-model under another name.
/// A folder that has files already is left as it is. Returns an exit code.
int init_model(const InitModelOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace trainyard::cli

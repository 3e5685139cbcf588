#pragma once

#include <iosfwd>
#include <string>

namespace trainyard::cli {

struct RenderOptions {
  std::string file;
  std::string name_space = "default";                    ///< For jobs that name no namespace.
  std::string worker_image = "trainyard-worker:latest";  ///< For jobs that name no image.
};

/// `trainyard render FILE`: prints the service and pods that the operator would create for the first attempt of each
/// TrainingJob, as YAML on `out`. UIDs, which the API server would set, are zeros. Returns the exit code.
[[nodiscard]] int render_file(const RenderOptions& options, std::ostream& out, std::ostream& error);

}  // namespace trainyard::cli

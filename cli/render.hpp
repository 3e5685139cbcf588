#pragma once

#include <iosfwd>
#include <string>

namespace trainyard::cli {

struct RenderOptions {
  std::string file;
  std::string name_space = "default";                    ///< Of jobs that name none.
  std::string worker_image = "trainyard-worker:latest";  ///< Where a job names no image.
};

/// `trainyard render FILE`: service and pods that the operator would make for the first attempt of each TrainingJob, as
/// YAML on `out`. UIDs, which the API server gives, are zeros. Gives the exit code.
[[nodiscard]] int render_file(const RenderOptions& options, std::ostream& out, std::ostream& error);

}  // namespace trainyard::cli

#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/text/output.hpp"

/// The commands that read files of TrainingJobs, and need neither a cluster nor a run.
namespace trainyard::cli {

struct ValidateOptions {
  std::vector<std::string> files;
  /// JSON and YAML: a list with an object for each document that could be read: "file", "document", "item" (from 1, in
  /// a document that is a list), "kind", "name", "valid" (null: no TrainingJob, and not checked), "violations" (texts),
  /// and perhaps a "note" on a valid job.
  OutputFormat format = OutputFormat::text;
};

/// `trainyard validate FILE...`: prints on `out` every violation of every TrainingJob, with file, document, field and a
/// sentence, and on `error` why a file cannot be read. Returns the exit code: 0 if all TrainingJobs are valid, 1 if one
/// is not, a file cannot be read, or there is no TrainingJob.
[[nodiscard]] int validate_files(const ValidateOptions& options, std::ostream& out, std::ostream& error);

struct RenderOptions {
  std::string file;
  std::string name_space = "default";                    ///< For jobs that name no namespace.
  std::string worker_image = "trainyard-worker:latest";  ///< For jobs that name no image.
};

/// `trainyard render FILE`: prints the service and pods that the operator would create for the first attempt of each
/// TrainingJob, as YAML on `out`. UIDs, which the API server would set, are zeros. Returns the exit code.
[[nodiscard]] int render_file(const RenderOptions& options, std::ostream& out, std::ostream& error);

}  // namespace trainyard::cli

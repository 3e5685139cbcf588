#pragma once

#include <optional>
#include <string>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "storage/open_folder.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::train {

/// A rank's job: its spec, and the files that it uses.
struct Job {
  api::TrainingSpec training;
  std::optional<api::CheckpointSpec> checkpoint;
  /// Absolute, for data fetched from a URI: TRAINYARD_DATA_CACHE, else a subfolder of the temporary folder.
  std::string cache_folder;
  storage::posix::Modes cache_modes;              ///< Permissions of what is made there: TRAINYARD_FILE_MODE.
  std::optional<std::string> sample_record_file;  ///< TRAINYARD_RECORD_SAMPLES.
};

/// Reads the job from TRAINYARD_SPEC and the variables above. ErrorKind::invalid names the field that is missing or
/// wrong.
[[nodiscard]] Result<Job> read_job(const rank::Environment& environment);

}  // namespace trainyard::train

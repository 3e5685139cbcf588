#pragma once

#include <optional>
#include <string>

#include "common/result.hpp"
#include "operator/resource/training_spec.hpp"
#include "worker/launcher/environment.hpp"

namespace trainyard::train {

/// What a rank is told to do, and where it keeps things.
struct Job {
  resource::TrainingSpec training;
  std::optional<resource::CheckpointSpec> checkpoint;
  std::string cache_folder;  ///< For data fetched from a URI: TRAINYARD_DATA_CACHE, else one of the temporary folder.
  std::optional<std::string> sample_record_file;  ///< TRAINYARD_RECORD_SAMPLES.
};

/// The job in TRAINYARD_SPEC and the variables above. invalid when it is missing or wrong, naming the field.
[[nodiscard]] Result<Job> read_job(const launcher::Environment& environment);

}  // namespace trainyard::train

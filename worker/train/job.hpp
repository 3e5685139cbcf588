#pragma once

#include <optional>
#include <string>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::train {

/// What a rank is told to do, and where it keeps things.
struct Job {
  api::TrainingSpec training;
  std::optional<api::CheckpointSpec> checkpoint;
  std::string cache_folder;  ///< For data fetched from a URI: TRAINYARD_DATA_CACHE, else one of the temporary folder.
  std::optional<std::string> sample_record_file;  ///< TRAINYARD_RECORD_SAMPLES.
};

/// The job in TRAINYARD_SPEC and the variables above. invalid when it is missing or wrong, naming the field.
[[nodiscard]] Result<Job> read_job(const rank::Environment& environment);

}  // namespace trainyard::train

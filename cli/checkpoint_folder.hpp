#pragma once

#include <optional>
#include <string>

#include "api/training_job.hpp"

namespace trainyard::cli {

/// The complete checkpoint with the highest step below `uri`, where that is a folder of this machine (file://). Empty:
/// there is none, or it is elsewhere. A job's status knows it only by the last report before the end.
[[nodiscard]] std::optional<api::CheckpointStatus> newest_checkpoint(const std::string& uri);

}  // namespace trainyard::cli

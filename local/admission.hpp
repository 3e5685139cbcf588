#pragma once

#include "local/memory_api.hpp"

namespace trainyard::local {

/// The work of the CRD in an API server: defaults, schema (also of the status) and CEL rules of TrainingJobs. Other
/// kinds are stored unchanged.
[[nodiscard]] Admission training_job_admission();

}  // namespace trainyard::local

#pragma once

#include "local/memory_api.hpp"

namespace trainyard::local {

/// The CRD's part of the server for TrainingJobs: defaults, schema (the status' too), CEL rules. Other kinds pass as
/// they are.
[[nodiscard]] Admission training_job_admission();

}  // namespace trainyard::local

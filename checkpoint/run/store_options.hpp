#pragma once

#include "api/training_spec.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// The options of open_store() from a job's `checkpoint.s3`.
[[nodiscard]] storage::S3Options options_of(const api::S3Spec& spec);

}  // namespace trainyard::checkpoint

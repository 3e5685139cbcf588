#pragma once

#include "api/training_spec.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// What a job's `checkpoint.s3` says, as open_store() takes it.
[[nodiscard]] storage::S3Options options_of(const api::S3Spec& spec);

}  // namespace trainyard::checkpoint

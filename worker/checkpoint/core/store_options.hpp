#pragma once

#include "operator/resource/training_spec.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// What a job's `checkpoint.s3` says, as open_store() takes it.
[[nodiscard]] storage::S3Options options_of(const resource::S3Spec& spec);

}  // namespace trainyard::checkpoint

#include "checkpoint/run/store_options.hpp"

namespace trainyard::checkpoint {

storage::S3Options options_of(const api::S3Spec& spec) {
  return {.endpoint = spec.endpoint,
          .region = spec.region,
          .path_style = spec.path_style,
          .sse = spec.server_side_encryption,
          .sse_kms_key_id = spec.kms_key_id};
}

}  // namespace trainyard::checkpoint

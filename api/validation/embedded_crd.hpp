#pragma once

#include <string_view>

namespace trainyard::api {

/// crds/trainingjobs.trainyard.dev.yaml as it was when the program was built.
[[nodiscard]] std::string_view training_job_crd();

}  // namespace trainyard::api

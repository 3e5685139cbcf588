#pragma once

#include <string>

#include "operator/kube/api.hpp"

namespace trainyard::cli {

/// Makes `id` the checkpoint that the job's annotation asks for, as `kubectl annotate` would.
[[nodiscard]] Result<void> annotate_request(kube::Api& api, const std::string& name_space, const std::string& job,
                                            const std::string& id);

}  // namespace trainyard::cli

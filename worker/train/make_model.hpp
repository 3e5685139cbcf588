#pragma once

#include <memory>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/program.hpp"

namespace trainyard::train {

/// Makes the model that `spec` names, with its options. ErrorKind::invalid for an unknown name, with the known names,
/// for options that the model refuses, and for options that it does not have. Throws what the model's constructor
/// throws, except InvalidJob.
[[nodiscard]] Result<std::shared_ptr<Module>> make_model(const Models& models, const api::ModelSpec& spec);

}  // namespace trainyard::train

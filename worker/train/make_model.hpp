#pragma once

#include <torch/types.h>

#include <memory>
#include <string>

#include "api/training_spec.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "include/trainyard/program.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/job.hpp"

namespace trainyard::train {

/// Makes the model that `spec` names, with its options. ErrorKind::invalid for an unknown name, with the known names,
/// for options that the model refuses, and for options that it does not have. Throws what the model's constructor
/// throws, except InvalidJob.
[[nodiscard]] Result<std::shared_ptr<Module>> make_model(const Models& models, const api::ModelSpec& spec);

/// A model in the job's number format, on a device.
struct MadeModel {
  std::shared_ptr<Module> module;
  std::string script_digest;  ///< Digest of the model's file, if the model is a script; else empty.
};

/// Makes the job's model on `device`: that of the program, or of a TorchScript file, whose storage is retried within
/// `patience`.
[[nodiscard]] OrEnd<MadeModel> make_model_on(torch::Device device, const Models& models, const Job& job,
                                             const checkpoint::StartPatience& patience, const Clock& clock);

}  // namespace trainyard::train

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "api/training_spec.hpp"
#include "checkpoint/group/communicator.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "include/trainyard/module.hpp"
#include "include/trainyard/options.hpp"
#include "storage/store.hpp"

namespace trainyard::train {

/// Makes a model of `bytes`, a TorchScript file as torch.jit.save() writes it, on the CPU and in training mode. Its
/// parameters and buffers have the file's names. forward() takes the batch's inputs and returns one tensor.
///
/// The option `loss` names the loss of the outputs and the batch's targets: crossEntropy (the default), mse, l1 or
/// bceWithLogits (targets become floats). With `own`, forward() takes the inputs and the targets, and returns the loss
/// (docs/models.md, "TorchScript files"). Throws InvalidJob when the bytes are no such file, or the model cannot be
/// trained.
[[nodiscard]] std::shared_ptr<Module> make_script_model(std::span<const std::byte> bytes, const Options& options);

/// A model of a TorchScript file.
struct ScriptFile {
  std::shared_ptr<Module> model;
  std::string sha256;  ///< Digest of the file.
};

/// Makes the model of `spec`, of kind torchscript, whose file is first read into memory. The file is code that this
/// process will run. A storage that fails is retried within `patience`. Errors: the storage's; corrupt for another
/// digest than `spec` has; invalid where make_script_model() throws InvalidJob, and for options that it does not have.
[[nodiscard]] Result<ScriptFile> load_script_model(const api::ModelSpec& spec, const storage::S3Options& s3,
                                                   const checkpoint::StartPatience& patience, const Clock& clock);

/// Success when all ranks have read the same file. Collective. ErrorKind::io names a rank that has read another one.
[[nodiscard]] Result<void> agree_on_script(const std::string& sha256, checkpoint::Communicator& communicator);

}  // namespace trainyard::train

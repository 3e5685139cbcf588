#pragma once

#include <string_view>

#include "worker/train/model_registry.hpp"

namespace trainyard::train {

/// The main of a program with models of its own. Started by a launcher (or torchrun) it is a rank; started bare it
/// becomes trainyard-worker, found beside itself or in PATH, with itself as the rank program and `argv` passed on.
/// Returns an exit code only when that cannot be started.
int run_program(const ModelRegistry& models, int argc, char** argv);

/// run_program() with one model, named after its type (snake_case).
template <typename ModuleType>
int run_program(int argc, char** argv, std::string_view type_name) {
  ModelRegistry models;
  models.add<ModuleType>(snake_case(type_name));
  return run_program(models, argc, argv);
}

}  // namespace trainyard::train

#pragma once

#include <string_view>

#include "worker/train/model_registry.hpp"

namespace trainyard::train {

/// The main() of a program with models of its own. When a launcher or torchrun started the program, it runs as a rank.
/// Otherwise it executes trainyard-worker, found beside the program or in PATH, with the program itself as the rank
/// program, and passes `argv` on. Returns an exit code only when trainyard-worker cannot be started.
int run_program(const ModelRegistry& models, int argc, char** argv);

/// run_program() with one model, named after its type (snake_case).
template <typename ModuleType>
int run_program(int argc, char** argv, std::string_view type_name) {
  ModelRegistry models;
  models.add<ModuleType>(snake_case(type_name));
  return run_program(models, argc, argv);
}

}  // namespace trainyard::train

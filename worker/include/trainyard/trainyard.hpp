#pragma once

/// All that a training program of one's own includes:
///
///   #include <trainyard/trainyard.hpp>
///   class MyModel final : public trainyard::Module { ... };
///   TRAINYARD_MAIN(MyModel)
///
/// `Module` and what it offers: worker/train/module.hpp. The program then is a worker as `trainyard-worker` is, with
/// the model `my_model`.
#include "worker/train/module.hpp"
#include "worker/train/program.hpp"

/// Makes `ModuleType`, which has a constructor without arguments, the model of this program; its name in
/// `training.model.name` is the type's in snake_case.
#define TRAINYARD_MAIN(ModuleType)                                               \
  int main(int argc, char** argv) {                                              \
    return ::trainyard::train::run_program<ModuleType>(argc, argv, #ModuleType); \
  }

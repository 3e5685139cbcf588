#pragma once

/// The one header that your own training program includes:
///
///   #include <trainyard/trainyard.hpp>
///   class MyModel final : public trainyard::Module { ... };
///   TRAINYARD_MAIN(MyModel)
///
/// worker/train/module.hpp documents `Module`. The program can be started like `trainyard-worker`, and its jobs name
/// the model `my_model`.
#include "worker/train/module.hpp"
#include "worker/train/program.hpp"

/// Defines main() for a program whose only model is `ModuleType`, which needs a constructor without arguments.
/// `training.model.name` is the type's name in snake_case.
#define TRAINYARD_MAIN(ModuleType)                                               \
  int main(int argc, char** argv) {                                              \
    return ::trainyard::train::run_program<ModuleType>(argc, argv, #ModuleType); \
  }

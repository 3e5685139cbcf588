#pragma once

/// All public headers, for your own training program:
///
///   #include <trainyard/trainyard.hpp>
///   class MyModel final : public trainyard::Module { ... };
///   TRAINYARD_MAIN(MyModel)
///
/// module.hpp documents `Module`. The program can be started like `trainyard-worker`, and its jobs name the model
/// `my_model`.
#include <trainyard/callback.hpp>
#include <trainyard/data.hpp>
#include <trainyard/metrics.hpp>
#include <trainyard/module.hpp>
#include <trainyard/optimizer.hpp>
#include <trainyard/options.hpp>
#include <trainyard/process_set.hpp>
#include <trainyard/program.hpp>

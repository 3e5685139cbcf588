#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <trainyard/module.hpp>
#include <trainyard/options.hpp>

namespace trainyard {

/// The models of a program, by the name in `training.model.name`.
class Models {
 public:
  using Factory = std::function<std::shared_ptr<Module>(const Options&)>;

  void add(std::string name, Factory factory) { factories_[std::move(name)] = std::move(factory); }
  /// Adds a model whose constructor takes Options, or no argument.
  template <typename ModuleType>
  void add(std::string name) {
    add(std::move(name), [](const Options& options) -> std::shared_ptr<Module> {
      if constexpr (std::is_constructible_v<ModuleType, const Options&>) {
        return std::make_shared<ModuleType>(options);
      } else {
        return std::make_shared<ModuleType>();
      }
    });
  }
  [[nodiscard]] const std::map<std::string, Factory, std::less<>>& factories() const { return factories_; }

 private:
  std::map<std::string, Factory, std::less<>> factories_;
};

/// The main() of a program with models of its own. When a launcher or torchrun started the program, it runs as a rank.
/// Otherwise it executes trainyard-worker with the program itself as the rank program, and passes `argv` on.
/// trainyard-worker is found beside the program, in Trainyard's installation, or in PATH. Returns an exit code only
/// when it cannot be started, when there is no job in the environment, and after --help.
int run_program(const Models& models, int argc, char** argv);

/// Runs as a rank whatever started the program: reads the job from the environment, forms the group, trains the model
/// that the job names, and exits with a code that launcher and operator know. To be called by main before any thread is
/// started.
[[noreturn]] void run_rank(const Models& models);

/// "FashionCNN" becomes "fashion_cnn". The part up to the last "::" is removed.
[[nodiscard]] std::string snake_case(std::string_view type_name);

}  // namespace trainyard

/// Defines main() for a program whose only model is `ModuleType`; its constructor takes trainyard::Options, or nothing.
/// `training.model.name` is the type's name in snake_case.
#define TRAINYARD_MAIN(ModuleType)                                \
  int main(int argc, char** argv) {                               \
    ::trainyard::Models models;                                   \
    models.add<ModuleType>(::trainyard::snake_case(#ModuleType)); \
    return ::trainyard::run_program(models, argc, argv);          \
  }

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "worker/train/module.hpp"

namespace trainyard::train {

/// The models of a program, by the name in `training.model.name`.
class ModelRegistry {
 public:
  using Factory = std::function<std::shared_ptr<Module>()>;

  void add(std::string name, Factory factory) { factories_[std::move(name)] = std::move(factory); }
  template <typename ModuleType>
  void add(std::string name) {
    add(std::move(name), [] { return std::make_shared<ModuleType>(); });
  }

  /// Makes a new model. ErrorKind::invalid for an unknown name, with the known names.
  [[nodiscard]] Result<std::shared_ptr<Module>> make(std::string_view name) const;

 private:
  std::map<std::string, Factory, std::less<>> factories_;
};

/// "FashionCNN" becomes "fashion_cnn". The part up to the last "::" is removed.
[[nodiscard]] std::string snake_case(std::string_view type_name);

}  // namespace trainyard::train

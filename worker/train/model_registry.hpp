#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "worker/train/module.hpp"

namespace trainyard::train {

/// The models of a program, by the name that `training.model.name` gives.
class ModelRegistry {
 public:
  using Factory = std::function<std::shared_ptr<Module>()>;

  void add(std::string name, Factory factory) { factories_[std::move(name)] = std::move(factory); }
  template <typename ModuleType>
  void add(std::string name) {
    add(std::move(name), [] { return std::make_shared<ModuleType>(); });
  }

  /// A new model. invalid for an unknown name, with the names that are known.
  [[nodiscard]] Result<std::shared_ptr<Module>> make(std::string_view name) const;

 private:
  std::map<std::string, Factory, std::less<>> factories_;
};

/// "FashionCNN" -> "fashion_cnn"; what stands before the last "::" is left out.
[[nodiscard]] std::string snake_case(std::string_view type_name);

}  // namespace trainyard::train

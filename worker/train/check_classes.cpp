#include "worker/train/check_classes.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace trainyard::train {

Result<void> check_classes(const Module& module, const Datasets& datasets) {
  const std::int64_t known = module.classes();
  for (const auto& [name, dataset] :
       {std::pair{"training", datasets.train.get()}, std::pair{"validation", datasets.validation.get()},
        std::pair{"test", datasets.test.get()}}) {
    const std::int64_t found = dataset == nullptr ? 0 : dataset->classes();
    if (known == 0 || found <= known) continue;
    return fail(ErrorKind::invalid,
                fmt::format("the {} set has labels up to {}, but the model tells only {} classes apart (0 to {}); set "
                            "its option in training.model.options, or take other data",
                            name, found - 1, known, known - 1));
  }
  return {};
}

}  // namespace trainyard::train

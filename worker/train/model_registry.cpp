#include "worker/train/model_registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <vector>

namespace trainyard::train {
namespace {

bool is_upper(char c) {
  return std::isupper(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

Result<std::shared_ptr<Module>> ModelRegistry::make(std::string_view name) const {
  const auto found = factories_.find(name);
  if (found != factories_.end()) return found->second();
  std::vector<std::string_view> known;
  for (const auto& [known_name, factory] : factories_) known.push_back(known_name);
  return fail(ErrorKind::invalid,
              fmt::format("training.model.name: no model '{}' here (there is: {}); for your own use "
                          "--worker or an image",
                          name, fmt::join(known, ", ")));
}

std::string snake_case(std::string_view type_name) {
  if (const std::size_t scope = type_name.rfind("::"); scope != std::string_view::npos)
    type_name.remove_prefix(scope + 2);
  std::string name;
  for (std::size_t index = 0; index < type_name.size(); ++index) {
    const char c = type_name[index];
    const bool begins_word =
        index > 0 && is_upper(c) && type_name[index - 1] != '_' &&
        (!is_upper(type_name[index - 1]) ||
         (index + 1 < type_name.size() && std::islower(static_cast<unsigned char>(type_name[index + 1])) != 0));
    if (begins_word) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace trainyard::train

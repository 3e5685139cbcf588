#include "checkpoint/run/nodes.hpp"

#include <map>

namespace trainyard::checkpoint {

std::vector<std::int64_t> keepers_of(std::span<const std::string> names) {
  std::map<std::string_view, std::int64_t> first;
  std::vector<std::int64_t> keepers;
  for (const std::string& name : names)
    keepers.push_back(first.emplace(name, static_cast<std::int64_t>(keepers.size())).first->second);
  return keepers;
}

}  // namespace trainyard::checkpoint

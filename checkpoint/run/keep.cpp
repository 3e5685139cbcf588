#include "checkpoint/run/keep.hpp"

#include <nlohmann/json.hpp>

namespace trainyard::checkpoint {

Facts facts_of(const nlohmann::json& values) {
  Facts facts;
  if (!values.is_object()) return facts;
  const auto epoch = values.find("epoch");
  const auto samples = values.find("samples");
  const bool are_there = epoch != values.end() && samples != values.end();
  if (are_there && epoch->is_number_integer() && *samples == 0 && *epoch > 0)
    facts.ended_epoch = epoch->get<std::int64_t>();
  const auto metrics = values.find("metrics");
  if (metrics == values.end() || !metrics->is_object()) return facts;
  for (const auto& [name, value] : metrics->items()) {
    if (value.is_number()) facts.metrics[name] = value.get<double>();
  }
  return facts;
}

}  // namespace trainyard::checkpoint

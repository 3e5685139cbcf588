#include "local/selection.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/try.hpp"

namespace trainyard::local {

bool Selection::selects(const nlohmann::json& object) const {
  const bool is_in_namespace = name_space.empty() || object.at("metadata").value("namespace", "") == name_space;
  return is_in_namespace && labels_match(labels, object) && fields_match(fields, object);
}

Result<Selection> parse_selection(std::string name_space, std::string_view label_selector,
                                  std::string_view field_selector) {
  auto labels = TRY(parse_label_selector(label_selector));
  auto fields = TRY(parse_field_selector(field_selector));
  return Selection{.name_space = std::move(name_space), .labels = std::move(labels), .fields = std::move(fields)};
}

}  // namespace trainyard::local

#pragma once

#include <string>

#include "local/selector.hpp"

namespace trainyard::local {

/// The objects of a kind that a list or a watch selects.
struct Selection {
  std::string name_space;  ///< Empty: all.
  Selector labels;
  Selector fields;

  [[nodiscard]] bool selects(const nlohmann::json& object) const;
};

/// Errors are those of parse_label_selector() and parse_field_selector().
[[nodiscard]] Result<Selection> parse_selection(std::string name_space, std::string_view label_selector,
                                                std::string_view field_selector);

}  // namespace trainyard::local

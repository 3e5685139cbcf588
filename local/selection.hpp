#pragma once

#include <string>

#include "local/selector.hpp"

namespace trainyard::local {

/// Which objects of a kind a list or a watch is about.
struct Selection {
  std::string name_space;  ///< Empty: all.
  Selector labels;
  Selector fields;

  [[nodiscard]] bool selects(const nlohmann::json& object) const;
};

/// ErrorKind::invalid as the selectors' parsers say it.
[[nodiscard]] Result<Selection> parse_selection(std::string name_space, std::string_view label_selector,
                                                std::string_view field_selector);

}  // namespace trainyard::local

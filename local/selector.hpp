#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::local {

/// One requirement of a selector, on a label or a field. A field's key is a path such as "spec.nodeName".
struct Requirement {
  enum class Operator { in, not_in, exists, does_not_exist };
  std::string key;
  Operator op = Operator::exists;
  std::vector<std::string> values;
  bool operator==(const Requirement&) const = default;
};
using Selector = std::vector<Requirement>;  ///< All must hold; empty selects everything.

/// kubectl's -l: "a=b,c!=d,e,!f,g in (x,y),h notin (z)". ErrorKind::invalid for anything else.
[[nodiscard]] Result<Selector> parse_label_selector(std::string_view text);
/// kubectl's --field-selector: "metadata.name=a,spec.nodeName!=b".
/// ErrorKind::invalid for other fields than metadata.name, metadata.namespace, spec.nodeName, status.phase and, for
/// events, regarding.kind and reason.
[[nodiscard]] Result<Selector> parse_field_selector(std::string_view text);

[[nodiscard]] bool labels_match(const Selector& selector, const nlohmann::json& object);
[[nodiscard]] bool fields_match(const Selector& selector, const nlohmann::json& object);

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

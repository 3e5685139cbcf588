#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::local {

/// One requirement of a selector: a label's, or a field's, whose key is then a path such as "spec.nodeName".
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
/// ErrorKind::invalid also for fields that no API server selects by here: only metadata.name, metadata.namespace,
/// spec.nodeName, status.phase.
[[nodiscard]] Result<Selector> parse_field_selector(std::string_view text);

[[nodiscard]] bool labels_match(const Selector& selector, const nlohmann::json& object);
[[nodiscard]] bool fields_match(const Selector& selector, const nlohmann::json& object);

}  // namespace trainyard::local

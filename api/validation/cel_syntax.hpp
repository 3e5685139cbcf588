#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

/// The part of the Common Expression Language that the CRD's rules are written in.
namespace trainyard::api::cel {

enum class NodeKind {
  literal,      ///< `value`
  name,         ///< `text`
  list,         ///< children: the items
  select,       ///< children: the object; `text`: the field
  has,          ///< children: the object; `text`: the field that may be absent
  index,        ///< children: the map or list, the key
  negation,     ///< children: the operand
  binary,       ///< children: left, right; `text`: the operator
  conditional,  ///< children: condition, then, else
  function,     ///< children: the arguments; `text`: the name
  method,       ///< children: the receiver, the arguments; `text`: the name
  quantifier,   ///< children: the list or map, the body; `text`: "all" or "exists"; `variable`: the item's name
};

struct Node {
  NodeKind kind = NodeKind::literal;
  std::string text;
  std::string variable;
  nlohmann::json value;
  std::vector<std::unique_ptr<Node>> children;
};

/// Parses a rule. ErrorKind::invalid if `expression` is not CEL, or uses more than literals (single-quoted strings,
/// integers, true, false), lists, fields, indexes, calls, ! && || == != < <= > >= in + % ?:, has(), all() and exists().
[[nodiscard]] Result<std::unique_ptr<Node>> parse(std::string_view expression);

}  // namespace trainyard::api::cel

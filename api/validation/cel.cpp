#include "api/validation/cel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/validation/cel_syntax.hpp"
#include "common/text.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"

namespace trainyard::api::cel {
namespace {

using nlohmann::json;

/// Either a reference to a value of the validated object, or a computed value.
class Value {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): every JSON value is one.
  Value(json computed) : computed_(std::move(computed)) {}  // Braces would make a JSON list.
  static Value of(const json& judged) {
    Value value{nullptr};
    value.judged_ = &judged;
    return value;
  }
  const json& operator*() const { return judged_ != nullptr ? *judged_ : computed_; }
  const json* operator->() const { return &**this; }

 private:
  json computed_;
  const json* judged_ = nullptr;
};

using Outcome = Result<Value>;

tl::unexpected<Error> no_value(std::string sentence) {
  return fail(ErrorKind::invalid, std::move(sentence));
}

Outcome text_method(std::string_view name, const std::string& text, const std::string& argument) {
  if (name == "startsWith") return json(text.starts_with(argument));
  if (name == "endsWith") return json(text.ends_with(argument));
  if (name == "matches") {
    // std::regex calls itself for each character, and the stack ends at some tens of thousands. No field with a pattern
    // may be nearly as long.
    constexpr std::size_t length_max = 4'096;
    if (text.size() > length_max)
      return no_value(fmt::format("has {} bytes, and no valid value is nearly as long", text.size()));
    // The rules use only patterns that RE2 and ECMAScript read alike; the corpus of specs tests that.
    return json(std::regex_search(text, std::regex{argument}));
  }
  return no_value(fmt::format("no method {} of strings", name));
}

Outcome compare(std::string_view op, const json& left, const json& right) {
  if (op == "==") return json(left == right);
  if (op == "!=") return json(left != right);
  const bool is_comparable = (left.is_number() && right.is_number()) || (left.is_string() && right.is_string());
  if (!is_comparable)
    return no_value(fmt::format("{} does not compare {} with {}", op, left.type_name(), right.type_name()));
  if (op == "<") return json(left < right);
  if (op == "<=") return json(left <= right);
  return json(op == ">" ? left > right : left >= right);
}

Outcome contains(const json& item, const json& collection) {
  if (collection.is_array()) return json(std::ranges::find(collection, item) != collection.end());
  if (collection.is_object() && item.is_string()) return json(collection.contains(item.get_ref<const std::string&>()));
  return no_value(fmt::format("no 'in' of {}", collection.type_name()));
}

Outcome add(const json& left, const json& right) {
  if (left.is_string() && right.is_string()) return json(left.get<std::string>() + right.get<std::string>());
  if (left.is_number_integer() && right.is_number_integer()) {
    return json(left.get<std::int64_t>() + right.get<std::int64_t>());
  }
  return no_value(fmt::format("no sum of {} and {}", left.type_name(), right.type_name()));
}

Outcome remainder(const json& left, const json& right) {
  if (!left.is_number_integer() || !right.is_number_integer() || right == 0)
    return no_value(fmt::format("% does not take {} and {}", left.dump(), right.dump()));
  // C++ leaves the remainder of the least integer and -1 undefined; all others by -1 are 0, too.
  return json(right == -1 ? 0 : left.get<std::int64_t>() % right.get<std::int64_t>());
}

Outcome call_function(std::string_view name, const json& argument) {
  if (name == "size") {
    return json(argument.is_string() ? count_characters(argument.get_ref<const std::string&>()) : argument.size());
  }
  if (name == "string") {
    if (argument.is_string()) return argument;
    if (!argument.is_number()) return no_value(fmt::format("no string of {}", argument.type_name()));
    const auto number = argument.get<double>();
    // Kubernetes writes 2.0 as 2.
    return json(std::trunc(number) == number ? fmt::format("{:.0f}", number) : argument.dump());
  }
  if (name == "duration" && argument.is_string()) {
    const auto duration = TRY(parse_duration(argument.get_ref<const std::string&>()));
    return json(duration.count());
  }
  return no_value(fmt::format("no function {} of {}", name, argument.type_name()));
}

class Evaluation {
 public:
  void bind(std::string name, const json& value) { names_.emplace_back(std::move(name), &value); }
  void unbind() { names_.pop_back(); }

  Outcome evaluate(const Node& node) {
    switch (node.kind) {
      case NodeKind::literal:
        return Value::of(node.value);
      case NodeKind::name:
        return find(node.text);
      case NodeKind::list:
        return evaluate_list(node);
      case NodeKind::select:
        return select(node);
      case NodeKind::has:
        return has(node);
      case NodeKind::index:
        return index(node);
      case NodeKind::negation:
        return negate(node);
      case NodeKind::binary:
        return node.text == "&&" || node.text == "||" ? logical(node) : binary(node);
      case NodeKind::conditional:
        return conditional(node);
      case NodeKind::function:
        return function(node);
      case NodeKind::method:
        return method(node);
      case NodeKind::quantifier:
        return quantify(node);
    }
    return no_value("no such node");
  }

  Result<bool> truth(const Node& node) {
    const Value value = TRY(evaluate(node));
    if (!value->is_boolean()) return no_value("neither true nor false");
    return value->get<bool>();
  }

 private:
  Outcome find(const std::string& name) const {
    const auto found = std::ranges::find(names_.rbegin(), names_.rend(), name, &Binding::first);
    if (found == names_.rend()) return no_value(fmt::format("no such name: {}", name));
    return Value::of(*found->second);
  }

  /// The value at `key`; valid as long as `object` is.
  static Outcome at(const Value& object, const std::string& key) {
    const auto found = object->is_object() ? object->find(key) : object->end();
    if (!object->is_object() || found == object->end()) return no_value(fmt::format("no such field: {}", key));
    return Value::of(*found);
  }

  Outcome evaluate_list(const Node& node) {
    json list = json::array();
    for (const auto& child : node.children) {
      const Value item = TRY(evaluate(*child));
      list.push_back(*item);
    }
    return Value{std::move(list)};
  }

  Outcome select(const Node& node) {
    const Outcome object = evaluate(*node.children[0]);
    return object ? at(*object, node.text) : object;
  }

  Outcome has(const Node& node) {
    const Value object = TRY(evaluate(*node.children[0]));
    return json(object->is_object() && object->contains(node.text));
  }

  Outcome index(const Node& node) {
    const Value object = TRY(evaluate(*node.children[0]));
    const Value key = TRY(evaluate(*node.children[1]));
    if (!key->is_string()) return no_value("an index must be a string");
    return at(object, key->get_ref<const std::string&>());
  }

  Outcome negate(const Node& node) {
    const bool operand = TRY(truth(*node.children[0]));
    return json(!operand);
  }

  Outcome logical(const Node& node) {
    // A decisive operand (false for &&, true for ||) gives the result even if the other operand has no value.
    const bool decisive = node.text == "||";
    const Result<bool> left = truth(*node.children[0]);
    if (left && *left == decisive) return json(decisive);
    const Result<bool> right = truth(*node.children[1]);
    if (right && *right == decisive) return json(decisive);
    TRY(left);
    TRY(right);
    return json(!decisive);
  }

  Outcome binary(const Node& node) {
    const Value left = TRY(evaluate(*node.children[0]));
    const Value right = TRY(evaluate(*node.children[1]));
    if (node.text == "in") return contains(*left, *right);
    if (node.text == "+") return add(*left, *right);
    if (node.text == "%") return remainder(*left, *right);
    return compare(node.text, *left, *right);
  }

  Outcome conditional(const Node& node) {
    const bool condition = TRY(truth(*node.children[0]));
    return evaluate(*node.children[condition ? 1 : 2]);
  }

  Outcome function(const Node& node) {
    if (node.children.size() != 1) return no_value(fmt::format("{} takes one argument", node.text));
    const Outcome argument = evaluate(*node.children[0]);
    return argument ? call_function(node.text, **argument) : argument;
  }

  Outcome method(const Node& node) {
    if (node.children.size() != 2) return no_value(fmt::format("{} takes one argument", node.text));
    const Value receiver = TRY(evaluate(*node.children[0]));
    const Value argument = TRY(evaluate(*node.children[1]));
    if (!receiver->is_string()) return no_value(fmt::format("no method {} of {}", node.text, receiver->type_name()));
    const auto& text = receiver->get_ref<const std::string&>();
    if (node.text == "substring" && argument->is_number_integer()) {
      // The rules use substring only after an ASCII prefix, where each character is one byte.
      const auto begin = argument->get<std::size_t>();
      return begin <= text.size() ? Outcome{json(text.substr(begin))} : no_value("substring beyond the end");
    }
    if (!argument->is_string()) return no_value(fmt::format("{} takes a string", node.text));
    return text_method(node.text, text, argument->get_ref<const std::string&>());
  }

  /// Evaluates `all` as && and `exists` as || over the items. The items of a map are its keys.
  Outcome quantify(const Node& node) {
    const Value collection = TRY(evaluate(*node.children[0]));
    const bool decisive = node.text == "exists";
    Outcome result = json(!decisive);
    const auto judge = [&](const json& item) {
      bind(node.variable, item);
      const Result<bool> holds = truth(*node.children[1]);
      unbind();
      if (!holds) {
        result = tl::unexpected(holds.error());
        return false;
      }
      return *holds == decisive;
    };
    if (collection->is_array()) {
      if (std::ranges::any_of(*collection, judge)) return json(decisive);
      return result;
    }
    if (!collection->is_object()) return no_value(fmt::format("no {} of {}", node.text, collection->type_name()));
    for (const auto& [key, unused] : collection->items()) {
      if (judge(json(key))) return json(decisive);
    }
    return result;
  }

  using Binding = std::pair<std::string, const json*>;
  std::vector<Binding> names_;
};

}  // namespace

Result<bool> keeps_rule(std::string_view rule, const json& self, const json* old_self) {
  const auto expression = TRY(parse(rule));
  Evaluation evaluation;
  evaluation.bind("self", self);
  if (old_self != nullptr) evaluation.bind("oldSelf", *old_self);
  return evaluation.truth(*expression);
}

std::set<std::string> fields_of_self(std::string_view rule) {
  static const std::regex read_field{R"(\bself\.([A-Za-z]+))"};
  std::set<std::string> fields;
  for (std::cregex_iterator found{rule.data(), rule.data() + rule.size(), read_field}, end; found != end; ++found)
    fields.insert(found->str(1));
  return fields;
}

bool is_about_changes(std::string_view rule) {
  return rule.find("oldSelf") != std::string_view::npos;
}

}  // namespace trainyard::api::cel

#include "api/validation/schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "api/field_reader.hpp"
#include "common/nearest_word.hpp"
#include "common/text.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

const json no_schema = json::object();

const json& child_schema(const json& schema, std::string_view name) {
  const auto found = schema.find(name);
  return found == schema.end() || !found->is_object() ? no_schema : *found;
}

bool flag(const json& schema, std::string_view name) {
  return schema.value(name, false);
}

bool is_nullable(const json& schema) {
  return flag(schema, "nullable");
}

/// Fills in `parent[name]` where it is absent, drops it where it is a null that is not allowed, and fills in the
/// defaults below it.
void apply_defaults_to_field(const json& schema, json& parent, const std::string& name) {
  const auto found = parent.find(name);
  const bool is_missing = found == parent.end();
  if (is_missing || (found->is_null() && !is_nullable(schema))) {
    if (schema.contains("default")) {
      parent[name] = schema.at("default");
    } else if (!is_missing) {
      parent.erase(name);
    }
  }
  if (parent.contains(name)) parent[name] = with_schema_defaults(schema, std::move(parent[name]));
}

/// True when the API server takes `value` for an integer. It reads numbers beyond 64 bits as floating-point numbers,
/// and floating-point numbers are integers only below 2^53.
bool is_integer(const json& value) {
  constexpr double exact_max = 9007199254740991;  // 2^53 - 1
  if (value.is_number_unsigned())
    return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const auto number = value.get<double>();
  return std::trunc(number) == number && std::abs(number) <= exact_max;
}

bool is_too_large_integer(const json& value) {
  return value.is_number() && !is_integer(value) && std::trunc(value.get<double>()) == value.get<double>();
}

std::string_view type_words(std::string_view type) {
  if (type == "object") return "an object with fields";
  if (type == "array") return "a list";
  if (type == "string") return "a string";
  if (type == "boolean") return "true or false";
  return type == "integer" ? "an integer" : "a number";
}

bool has_type(const json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  return type == "integer" ? is_integer(value) : value.is_number();
}

enum class Extent { everything, form_only };

class Checker {
 public:
  explicit Checker(Extent extent) : extent_{extent} {}
  std::vector<Violation> take() { return std::move(violations_); }

  void check(const json& schema, const json& value, const std::string& path) {
    if (flag(schema, "x-kubernetes-int-or-string")) {
      if (!is_integer(value) && !value.is_string()) return refuse(path, "must be an integer or a string", value);
    } else if (const auto type = schema.find("type"); type != schema.end()) {
      const auto& name = type->get_ref<const std::string&>();
      if (name == "integer" && is_too_large_integer(value)) return refuse(path, "must be an integer of 64 bits", value);
      if (!has_type(value, name)) return refuse(path, fmt::format("must be {}", type_words(name)), value);
    }
    check_enum(schema, value, path);
    if (extent_ == Extent::everything && value.is_number()) check_number(schema, value, path);
    if (extent_ == Extent::everything && value.is_string())
      check_text(schema, value.get_ref<const std::string&>(), path);
    if (value.is_array()) check_list(schema, value, path);
    if (value.is_object()) check_object(schema, value, path);
  }

 private:
  void refuse(const std::string& path, std::string_view expected, const json& value) {
    violations_.push_back({path, fmt::format("{}, got {}", expected, shown(value))});
  }

  void check_enum(const json& schema, const json& value, const std::string& path) {
    const auto allowed = schema.find("enum");
    if (allowed == schema.end() || std::ranges::find(*allowed, value) != allowed->end()) return;
    std::vector<std::string> words;
    for (const json& word : *allowed) {
      std::string text = word.is_string() ? word.get<std::string>() : word.dump();
      // A number and its text, such as 16 and "16", are one word to a reader.
      if (std::ranges::find(words, text) == words.end()) words.push_back(std::move(text));
    }
    refuse(path, fmt::format("must be one of {}", fmt::join(words, ", ")), value);
    if (!value.is_string()) return;
    const auto meant = nearest_words(value.get_ref<const std::string&>(), words);
    if (!meant.empty()) violations_.back().sentence += fmt::format("; did you mean {}?", fmt::join(meant, " or "));
  }

  void check_number(const json& schema, const json& value, const std::string& path) {
    const auto number = value.get<double>();
    if (const auto min = schema.find("minimum"); min != schema.end()) {
      const bool is_open = flag(schema, "exclusiveMinimum");
      if (is_open ? number <= min->get<double>() : number < min->get<double>()) {
        refuse(path, fmt::format("must be {} {}", is_open ? "more than" : "at least", min->dump()), value);
      }
    }
    if (const auto max = schema.find("maximum"); max != schema.end()) {
      const bool is_open = flag(schema, "exclusiveMaximum");
      if (is_open ? number >= max->get<double>() : number > max->get<double>()) {
        refuse(path, fmt::format("must be {} {}", is_open ? "less than" : "at most", max->dump()), value);
      }
    }
  }

  void check_text(const json& schema, const std::string& text, const std::string& path) {
    const std::size_t length = count_characters(text);
    if (length < schema.value("minLength", std::size_t{0})) {
      violations_.push_back(
          {path, text.empty() ? "must not be empty"
                              : fmt::format("must be at least {} characters long", schema.at("minLength").dump())});
    }
    if (length > schema.value("maxLength", length)) {
      violations_.push_back(
          {path, fmt::format("must be at most {} characters long, has {}", schema.at("maxLength").dump(), length)});
    }
  }

  void check_list(const json& schema, const json& list, const std::string& path) {
    if (extent_ == Extent::everything && list.size() > schema.value("maxItems", list.size())) {
      violations_.push_back(
          {path, fmt::format("must have at most {} items, has {}", schema.at("maxItems").dump(), list.size())});
    }
    const json& items = child_schema(schema, "items");
    for (std::size_t index = 0; index < list.size(); ++index) {
      check(items, list[index], fmt::format("{}[{}]", path, index));
    }
    if (const auto keys = schema.find("x-kubernetes-list-map-keys");
        extent_ == Extent::everything && keys != schema.end()) {
      check_keys_are_unique(*keys, list, path);
    }
  }

  void check_keys_are_unique(const json& keys, const json& list, const std::string& path) {
    std::set<json> seen;
    for (std::size_t index = 0; index < list.size(); ++index) {
      json identity = json::object();
      for (const json& key : keys) {
        const auto& name = key.get_ref<const std::string&>();
        if (list[index].is_object() && list[index].contains(name)) identity[name] = list[index].at(name);
      }
      if (!identity.empty() && !seen.insert(identity).second) {
        violations_.push_back({fmt::format("{}[{}]", path, index), fmt::format("comes twice: {}", identity.dump())});
      }
    }
  }

  void check_object(const json& schema, const json& object, const std::string& path) {
    if (extent_ == Extent::everything && object.size() > schema.value("maxProperties", object.size())) {
      violations_.push_back({path, fmt::format("must have at most {} entries, has {}",
                                               schema.at("maxProperties").dump(), object.size())});
    }
    for (const json& name : schema.value("required", json::array())) {
      const auto& field = name.get_ref<const std::string&>();
      if (!object.contains(field)) violations_.push_back({join_path(path, field), "must be given"});
    }
    const json& properties = child_schema(schema, "properties");
    const json& additional = child_schema(schema, "additionalProperties");
    const bool is_open = flag(schema, "x-kubernetes-preserve-unknown-fields") || !schema.contains("type");
    for (const auto& [name, value] : object.items()) {
      const std::string field = join_path(path, name);
      if (const auto property = properties.find(name); property != properties.end()) {
        check(*property, value, field);
      } else if (schema.contains("additionalProperties")) {
        check(additional, value, field);
      } else if (!is_open && extent_ == Extent::everything) {
        violations_.push_back({field, unknown_field(name, properties)});
      }
    }
  }

  Extent extent_;
  std::vector<Violation> violations_;
};

}  // namespace

std::string unknown_field(const std::string& field, const json& properties) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : properties.items()) names.push_back(name);
  const std::string meant = nearest_word(field, names);
  if (!meant.empty()) return fmt::format("unknown field; did you mean {}?", meant);
  return fmt::format("unknown field; there are {}", fmt::join(names, ", "));
}

std::string join_path(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string{name} : fmt::format("{}.{}", parent, name);
}

json with_schema_defaults(const json& schema, json value) {
  if (value.is_object()) {
    const json& properties = child_schema(schema, "properties");
    for (const auto& [name, property] : properties.items()) apply_defaults_to_field(property, value, name);
    if (const json& additional = child_schema(schema, "additionalProperties"); !additional.empty()) {
      std::vector<std::string> names;
      for (const auto& [name, unused] : value.items()) names.push_back(name);
      for (const std::string& name : names) {
        if (!properties.contains(name)) apply_defaults_to_field(additional, value, name);
      }
    }
  } else if (value.is_array()) {
    const json& items = child_schema(schema, "items");
    for (json& item : value) item = with_schema_defaults(items, std::move(item));
  }
  return value;
}

std::vector<Violation> check_schema(const json& schema, const json& value, const std::string& path) {
  Checker checker{Extent::everything};
  checker.check(schema, value, path);
  return checker.take();
}

bool is_well_formed(const json& schema, const json& value) {
  Checker checker{Extent::form_only};
  checker.check(schema, value, "");
  return checker.take().empty();
}

void visit_values(const json& schema, const json& value, const std::string& path,
                  const std::function<void(const json&, const json&, const std::string&)>& visit) {
  visit(schema, value, path);
  if (value.is_object()) {
    for (const auto& [name, property] : child_schema(schema, "properties").items()) {
      if (const auto found = value.find(name); found != value.end()) {
        visit_values(property, *found, join_path(path, name), visit);
      }
    }
  } else if (value.is_array()) {
    const json& items = child_schema(schema, "items");
    for (std::size_t index = 0; index < value.size(); ++index) {
      visit_values(items, value[index], fmt::format("{}[{}]", path, index), visit);
    }
  }
}

}  // namespace trainyard::api

#include "local/selector.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::local {
namespace {

using nlohmann::json;
using Operator = Requirement::Operator;

constexpr std::array<std::string_view, 6> selectable_fields{"metadata.name", "metadata.namespace", "spec.nodeName",
                                                            "status.phase",  "regarding.kind",     "reason"};

/// The parts of `text` between commas that are outside parentheses.
std::vector<std::string_view> split_requirements(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at == text.size() || (text[at] == ',' && depth == 0)) {
      parts.push_back(trim(text.substr(begin, at - begin)));
      begin = at + 1;
    } else if (text[at] == '(') {
      ++depth;
    } else if (text[at] == ')') {
      --depth;
    }
  }
  return parts;
}

std::optional<Requirement> parse_equality(std::string_view part) {
  const auto equal = part.find('=');
  if (equal == std::string_view::npos || equal == 0) return std::nullopt;
  const bool is_not = part[equal - 1] == '!';
  std::string_view value = part.substr(equal + 1);
  if (value.starts_with('=') && !is_not) value.remove_prefix(1);
  return Requirement{.key = std::string{trim(part.substr(0, is_not ? equal - 1 : equal))},
                     .op = is_not ? Operator::not_in : Operator::in,
                     .values = {std::string{trim(value)}}};
}

std::optional<Requirement> parse_set(std::string_view part) {
  const auto open = part.find('(');
  if (open == std::string_view::npos || !part.ends_with(')')) return std::nullopt;
  const std::string_view head = trim(part.substr(0, open));
  const auto space = head.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view word = head.substr(space + 1);
  if (word != "in" && word != "notin") return std::nullopt;
  Requirement requirement{.key = std::string{trim(head.substr(0, space))},
                          .op = word == "in" ? Operator::in : Operator::not_in,
                          .values = {}};
  for (const auto value : split_requirements(part.substr(open + 1, part.size() - open - 2))) {
    requirement.values.emplace_back(value);
  }
  return requirement;
}

std::optional<Requirement> parse_label_requirement(std::string_view part) {
  if (part.find('(') != std::string_view::npos) return parse_set(part);
  if (part.find('=') != std::string_view::npos) return parse_equality(part);
  if (part.starts_with('!')) {
    return Requirement{.key = std::string{trim(part.substr(1))}, .op = Operator::does_not_exist, .values = {}};
  }
  return Requirement{.key = std::string{part}, .op = Operator::exists, .values = {}};
}

bool holds(const Requirement& requirement, const std::optional<std::string>& value) {
  const bool is_listed =
      value && std::find(requirement.values.begin(), requirement.values.end(), *value) != requirement.values.end();
  switch (requirement.op) {
    case Operator::in:
      return is_listed;
    case Operator::not_in:
      return !is_listed;
    case Operator::exists:
      return value.has_value();
    case Operator::does_not_exist:
      return !value.has_value();
  }
  return false;
}

}  // namespace

Result<Selector> parse_label_selector(std::string_view text) {
  Selector selector;
  if (trim(text).empty()) return selector;
  for (const auto part : split_requirements(text)) {
    auto requirement = parse_label_requirement(part);
    if (!requirement || requirement->key.empty() || requirement->key.find(' ') != std::string::npos) {
      return fail(ErrorKind::invalid,
                  fmt::format("unable to parse requirement '{}' of label selector '{}'", part, text));
    }
    selector.push_back(*std::move(requirement));
  }
  return selector;
}

Result<Selector> parse_field_selector(std::string_view text) {
  Selector selector;
  if (trim(text).empty()) return selector;
  for (const auto part : split_requirements(text)) {
    auto requirement = parse_equality(part);
    if (!requirement) {
      return fail(ErrorKind::invalid,
                  fmt::format("unable to parse requirement '{}' of field selector '{}'", part, text));
    }
    if (std::find(selectable_fields.begin(), selectable_fields.end(), requirement->key) == selectable_fields.end()) {
      return fail(ErrorKind::invalid, fmt::format("field label not supported: {}", requirement->key));
    }
    selector.push_back(*std::move(requirement));
  }
  return selector;
}

bool labels_match(const Selector& selector, const json& object) {
  if (selector.empty()) return true;
  const json labels = object.value(json::json_pointer{"/metadata/labels"}, json::object());
  return std::all_of(selector.begin(), selector.end(), [&](const Requirement& requirement) {
    const auto found = labels.find(requirement.key);
    return holds(requirement, found == labels.end() ? std::nullopt : std::optional{found->get<std::string>()});
  });
}

bool fields_match(const Selector& selector, const json& object) {
  return std::all_of(selector.begin(), selector.end(), [&](const Requirement& requirement) {
    std::string path = "/" + requirement.key;
    std::replace(path.begin(), path.end(), '.', '/');
    // An absent field selects like an empty one, as on the server.
    return holds(requirement, object.value(json::json_pointer{path}, std::string{}));
  });
}

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

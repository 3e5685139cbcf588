#include "include/trainyard/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/field_reader.hpp"
#include "common/nearest_word.hpp"

namespace trainyard {

using nlohmann::json;

struct Options::Node {
  json value = json::object();
  std::string path;
  std::set<std::string, std::less<>> asked;                           // names that the model has asked for
  std::map<std::string, std::shared_ptr<Node>, std::less<>> objects;  // those of `asked` that are objects
  bool is_read_as_json = false;

  std::string path_of(std::string_view name) const { return fmt::format("{}.{}", path, name); }

  [[noreturn]] void refuse(std::string_view name, const std::string& wanted, const json& found) const {
    throw InvalidJob{fmt::format("{}: must be {}, got {}", path_of(name), wanted, api::shown(found))};
  }

  /// The option's value; nullptr where the job does not give it.
  const json* find(std::string_view name) {
    asked.emplace(name);
    const auto found = value.find(name);
    return found == value.end() || found->is_null() ? nullptr : &*found;
  }

  template <typename T, typename Read>
  T read(std::string_view name, std::optional<T> otherwise, const Read& read_value) {
    if (const json* found = find(name)) return read_value(*found);
    if (!otherwise) throw InvalidJob{fmt::format("{}: must be given", path_of(name))};
    return *std::move(otherwise);
  }

  std::string bounds(const std::string& kind, const auto& range) const {
    using Number = decltype(range.min);
    const Range<Number> all;
    if (range.min != all.min && range.max != all.max)
      return fmt::format("{} from {} to {}", kind, range.min, range.max);
    if (range.min != all.min) return fmt::format("{} of at least {}", kind, range.min);
    if (range.max != all.max) return fmt::format("{} of at most {}", kind, range.max);
    return kind;
  }

  std::int64_t to_integer(std::string_view name, const json& found, const Range<std::int64_t>& range) const {
    const auto number = api::as_integer(found);
    if (!number || *number < range.min || *number > range.max) refuse(name, bounds("a whole number", range), found);
    return *number;
  }

  double to_number(std::string_view name, const json& found, const Range<double>& range) const {
    const double number = found.is_number() ? found.get<double>() : 0.0;
    if (!found.is_number() || !(number >= range.min && number <= range.max))
      refuse(name, bounds("a number", range), found);
    return number;
  }

  template <typename ReadItem>
  auto to_list(std::string_view name, const json& found, const std::string& kind, const ReadItem& read_item) const {
    if (!found.is_array()) refuse(name, kind, found);
    std::vector<decltype(read_item(std::string{}, found))> items;
    for (std::size_t index = 0; index < found.size(); ++index)
      items.push_back(read_item(fmt::format("{}[{}]", name, index), found[index]));
    return items;
  }
};

Options::Options() : Options{"{}"} {}

Options::Options(std::shared_ptr<Node> node) : node_{std::move(node)} {}

Options::Options(std::string_view json_text, std::string path) : node_{std::make_shared<Node>()} {
  node_->path = std::move(path);
  node_->value = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!node_->value.is_object()) throw InvalidJob{fmt::format("{}: must be an object", node_->path)};
}

std::int64_t Options::integer(std::string_view name, std::optional<std::int64_t> otherwise,
                              const Range<std::int64_t>& range) const {
  return node_->read(name, otherwise, [&](const json& found) { return node_->to_integer(name, found, range); });
}

double Options::number(std::string_view name, std::optional<double> otherwise, const Range<double>& range) const {
  return node_->read(name, otherwise, [&](const json& found) { return node_->to_number(name, found, range); });
}

bool Options::boolean(std::string_view name, std::optional<bool> otherwise) const {
  return node_->read(name, otherwise, [&](const json& found) {
    if (!found.is_boolean()) node_->refuse(name, "true or false", found);
    return found.get<bool>();
  });
}

std::string Options::text(std::string_view name, std::optional<std::string> otherwise,
                          const std::vector<std::string>& choices) const {
  return node_->read(name, std::move(otherwise), [&](const json& found) {
    const bool is_allowed =
        found.is_string() &&
        (choices.empty() || std::find(choices.begin(), choices.end(), found.get<std::string>()) != choices.end());
    if (!is_allowed)
      node_->refuse(name, choices.empty() ? "a text" : fmt::format("one of {}", fmt::join(choices, ", ")), found);
    return found.get<std::string>();
  });
}

std::vector<std::int64_t> Options::integers(std::string_view name, std::optional<std::vector<std::int64_t>> otherwise,
                                            const Range<std::int64_t>& range) const {
  return node_->read(name, std::move(otherwise), [&](const json& found) {
    return node_->to_list(name, found, "a list of whole numbers", [&](const std::string& place, const json& item) {
      return node_->to_integer(place, item, range);
    });
  });
}

std::vector<double> Options::numbers(std::string_view name, std::optional<std::vector<double>> otherwise,
                                     const Range<double>& range) const {
  return node_->read(name, std::move(otherwise), [&](const json& found) {
    return node_->to_list(name, found, "a list of numbers", [&](const std::string& place, const json& item) {
      return node_->to_number(place, item, range);
    });
  });
}

std::vector<std::string> Options::texts(std::string_view name,
                                        std::optional<std::vector<std::string>> otherwise) const {
  return node_->read(name, std::move(otherwise), [&](const json& found) {
    return node_->to_list(name, found, "a list of texts", [&](const std::string& place, const json& item) {
      if (!item.is_string()) node_->refuse(place, "a text", item);
      return item.get<std::string>();
    });
  });
}

Options Options::object(std::string_view name) const {
  const json* found = node_->find(name);
  std::shared_ptr<Node>& child = node_->objects[std::string{name}];
  if (!child) {
    child = std::make_shared<Node>();
    child->path = node_->path_of(name);
    if (found != nullptr) {
      if (!found->is_object()) node_->refuse(name, "an object", *found);
      child->value = *found;
    }
  }
  return Options{child};
}

bool Options::contains(std::string_view name) const {
  return node_->find(name) != nullptr;
}

std::string Options::json_text() const {
  node_->is_read_as_json = true;
  return node_->value.dump();
}

void Options::check_all_asked(std::string_view reader) const {
  if (node_->is_read_as_json) return;
  const std::vector<std::string> known{node_->asked.begin(), node_->asked.end()};
  for (const auto& [name, value] : node_->value.items()) {
    if (node_->asked.contains(name)) continue;
    const std::string near = nearest_word(name, known);
    const std::string advice = !near.empty()   ? fmt::format("did you mean {}?", near)
                               : known.empty() ? "it has none here"
                                               : fmt::format("it has {}", fmt::join(known, ", "));
    throw InvalidJob{fmt::format("{}: {} has no such option; {}", node_->path_of(name), reader, advice)};
  }
  for (const auto& [name, child] : node_->objects) Options{child}.check_all_asked(reader);
}

}  // namespace trainyard

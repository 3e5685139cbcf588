#include "api/field_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

#include "common/time_text.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

std::string expected(std::string_view what, const json& value) {
  return fmt::format("must be {}, got {}", what, shown(value));
}

}  // namespace

std::optional<std::int64_t> as_integer(const json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) return {};
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return {};
  const auto number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) >= 9.0e18) return {};
  return static_cast<std::int64_t>(number);
}

FieldReader::FieldReader(const json& object, std::string path, std::optional<Error>& problem)
    : object_{object}, path_{std::move(path)}, problem_{problem} {
  if (!object_.is_object() && !object_.is_null() && !problem_) {
    problem_ =
        Error{.kind = ErrorKind::invalid,
              .message = fmt::format("{}: {}", path_.empty() ? "the object" : path_, expected("an object", object_)),
              .retry_after = {}};
  }
}

const json* FieldReader::find(std::string_view name) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void FieldReader::report(std::string_view name, std::string_view sentence) {
  if (problem_) return;
  problem_ = Error{.kind = ErrorKind::invalid,
                   .message = fmt::format("{}{}{}: {}", path_, path_.empty() ? "" : ".", name, sentence),
                   .retry_after = {}};
}

void FieldReader::require(std::string_view name) {
  const json* field = find(name);
  if (field == nullptr || (field->is_string() && field->get_ref<const std::string&>().empty())) {
    report(name, "must be given");
  }
}

void FieldReader::read(std::string_view name, std::string& value) {
  const json* field = find(name);
  if (field == nullptr) return;
  if (!field->is_string()) return report(name, expected("a string", *field));
  value = field->get<std::string>();
}

void FieldReader::read(std::string_view name, bool& value) {
  const json* field = find(name);
  if (field == nullptr) return;
  if (!field->is_boolean()) return report(name, expected("true or false", *field));
  value = field->get<bool>();
}

void FieldReader::read(std::string_view name, int& value) {
  std::int64_t wide = value;
  read(name, wide, {.min = std::numeric_limits<int>::min(), .max = std::numeric_limits<int>::max()});
  value = static_cast<int>(wide);
}

void FieldReader::read(std::string_view name, std::int64_t& value, IntegerRange range) {
  const json* field = find(name);
  if (field == nullptr) return;
  const auto number = as_integer(*field);
  if (!number) return report(name, expected("an integer", *field));
  if (*number < range.min) return report(name, expected(fmt::format("at least {}", range.min), *field));
  if (*number > range.max) return report(name, expected(fmt::format("at most {}", range.max), *field));
  value = *number;
}

void FieldReader::read(std::string_view name, double& value, NumberRange range) {
  const json* field = find(name);
  if (field == nullptr) return;
  if (!field->is_number()) return report(name, expected("a number", *field));
  const auto number = field->get<double>();
  if (range.is_min_open ? number <= range.min : number < range.min) {
    return report(name,
                  expected(fmt::format("{} {}", range.is_min_open ? "more than" : "at least", range.min), *field));
  }
  if (range.is_max_open ? number >= range.max : number > range.max) {
    return report(name, expected(fmt::format("{} {}", range.is_max_open ? "less than" : "at most", range.max), *field));
  }
  value = number;
}

void FieldReader::read(std::string_view name, std::chrono::milliseconds& value) {
  std::string text;
  read(name, text);
  if (find(name) == nullptr || problem_) return;
  const auto duration = parse_duration(text);
  if (!duration) return report(name, duration.error().message);
  value = *duration;
}

void FieldReader::read(std::string_view name, Time& value) {
  std::string text;
  read(name, text);
  if (find(name) == nullptr || problem_) return;
  const auto time = parse_rfc3339(text);
  if (!time) return report(name, time.error().message);
  value = *time;
}

void FieldReader::read(std::string_view name, std::map<std::string, std::string>& value) {
  read_object(name, [&](FieldReader& fields) {
    value.clear();
    for (const auto& [key, unused] : fields.object_.items()) fields.read(key, value[key]);
  });
}

void FieldReader::read(std::string_view name, std::vector<std::string>& value) {
  const json* field = find(name);
  if (field == nullptr) return;
  if (!field->is_array()) return report(name, expected("a list", *field));
  value.clear();
  for (const json& item : *field) {
    if (!item.is_string()) return report(fmt::format("{}[{}]", name, value.size()), expected("a string", item));
    value.push_back(item.get<std::string>());
  }
}

void FieldReader::read(std::string_view name, std::vector<std::int64_t>& value) {
  const json* field = find(name);
  if (field == nullptr) return;
  if (!field->is_array()) return report(name, expected("a list", *field));
  value.clear();
  for (const json& item : *field) {
    const auto number = as_integer(item);
    if (!number) return report(fmt::format("{}[{}]", name, value.size()), expected("an integer", item));
    value.push_back(*number);
  }
}

void FieldReader::read_object(std::string_view name, const std::function<void(FieldReader&)>& read_object) {
  const json* field = find(name);
  if (field == nullptr) return;
  if (!field->is_object()) return report(name, expected("an object", *field));
  FieldReader reader{*field, fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", name), problem_};
  read_object(reader);
}

void FieldReader::read_list(std::string_view name, const std::function<void(FieldReader&)>& read_item) {
  const json* field = find(name);
  if (field == nullptr) return;
  if (!field->is_array()) return report(name, expected("a list", *field));
  for (std::size_t index = 0; index < field->size(); ++index) {
    FieldReader reader{(*field)[index], fmt::format("{}{}{}[{}]", path_, path_.empty() ? "" : ".", name, index),
                       problem_};
    read_item(reader);
  }
}

std::optional<std::size_t> FieldReader::read_choice(std::string_view name, std::span<const std::string_view> allowed) {
  const json* field = find(name);
  if (field == nullptr) return {};
  if (field->is_string()) {
    for (std::size_t index = 0; index < allowed.size(); ++index) {
      if (field->get_ref<const std::string&>() == allowed[index]) return index;
    }
  }
  report(name, expected(fmt::format("one of {}", fmt::join(allowed, ", ")), *field));
  return {};
}

}  // namespace trainyard::api

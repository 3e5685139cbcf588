#pragma once

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "common/text.hpp"

namespace trainyard::api {

/// `value` as JSON text for an error message, cut after 80 bytes: a value in a user's file may be long.
[[nodiscard]] inline std::string shown(const nlohmann::json& value) {
  constexpr std::size_t bytes_max = 80;
  return keep_beginning(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), bytes_max);
}

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = INT64_MAX;
};
struct NumberRange {
  double min = 0;
  double max = 1e300;
  bool is_min_open = false;  ///< The value must be larger than min.
  bool is_max_open = false;
};

template <typename Enum>
using EnumName = std::pair<std::string_view, Enum>;
template <typename Enum, std::size_t count>
using EnumNames = std::array<EnumName<Enum>, count>;

/// The integer that `value` is; 3.0 is one too, as in Kubernetes. Nothing for other values, and beyond 64 bits.
[[nodiscard]] std::optional<std::int64_t> as_integer(const nlohmann::json& value);

/// Reads the fields of one JSON object. A field that is absent or null leaves its value as it was. All readers of one
/// document share `problem`, which keeps the first error: ErrorKind::invalid, "spec.training.batchSize: must be at
/// least 1, got 0".
class FieldReader {
 public:
  /// `object` and `problem` outlive the reader. A null `object` reads as an object without fields.
  FieldReader(const nlohmann::json& object, std::string path, std::optional<Error>& problem);

  void read(std::string_view name, std::string& value);
  void read(std::string_view name, bool& value);
  void read(std::string_view name, int& value);
  void read(std::string_view name, std::int64_t& value, IntegerRange range = {});
  void read(std::string_view name, double& value, NumberRange range);
  void read(std::string_view name, std::chrono::milliseconds& value);  ///< "90s"
  void read(std::string_view name, Time& value);
  void read(std::string_view name, std::map<std::string, std::string>& value);
  void read(std::string_view name, std::vector<std::string>& value);
  void read(std::string_view name, std::vector<std::int64_t>& value);

  template <typename Enum, std::size_t count>
  void read(std::string_view name, Enum& value, const EnumNames<Enum, count>& names) {
    std::vector<std::string_view> allowed;
    for (const auto& [text, unused] : names) allowed.push_back(text);
    if (const auto index = read_choice(name, allowed)) value = names[*index].second;
  }

  template <typename T, typename... Range>
  void read(std::string_view name, std::optional<T>& value, const Range&... range) {
    if (find(name) == nullptr) return;
    T read_value{};
    read(name, read_value, range...);
    value = std::move(read_value);
  }

  /// Calls `read_object` when the field is there and is an object.
  void read_object(std::string_view name, const std::function<void(FieldReader&)>& read_object);
  /// Calls `read_item` for each object of the list.
  void read_list(std::string_view name, const std::function<void(FieldReader&)>& read_item);
  /// Records a problem when the field is absent, null or an empty string.
  void require(std::string_view name);

  /// The field's value, or nullptr where it is absent or null.
  [[nodiscard]] const nlohmann::json* find(std::string_view name) const;
  void report(std::string_view name, std::string_view sentence);

 private:
  [[nodiscard]] std::optional<std::size_t> read_choice(std::string_view name,
                                                       std::span<const std::string_view> allowed);

  const nlohmann::json& object_;
  std::string path_;
  std::optional<Error>& problem_;
};

}  // namespace trainyard::api

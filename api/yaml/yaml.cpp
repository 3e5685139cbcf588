#include "api/yaml/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "common/text.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

/// Limits what aliases of aliases can make of a small file. No job has nearly as many values.
constexpr std::size_t values_max = 1'000'000;
/// Limits aliases to a value that contains them. No job is nearly as deep.
constexpr int depth_max = 100;

struct Refused {
  YAML::Mark mark;
  std::string sentence;
};

template <std::size_t count>
bool is_one_of(std::string_view text, const std::array<std::string_view, count>& words) {
  return std::ranges::find(words, text) != words.end();
}

constexpr std::array<std::string_view, 5> null_words{"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 11> true_words{"y",    "Y",    "yes", "Yes", "YES", "true",
                                                      "True", "TRUE", "on",  "On",  "ON"};
constexpr std::array<std::string_view, 11> false_words{"n",     "N",     "no",  "No",  "NO", "false",
                                                       "False", "FALSE", "off", "Off", "OFF"};

/// Reads a decimal, 0x, 0o or 0b number, or an octal one with a leading 0; each may have a sign.
std::optional<json> read_integer(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    base = text[1] == 'x' || text[1] == 'X' ? 16 : text[1] == 'b' || text[1] == 'B' ? 2 : 8;
    const bool has_letter = base != 8 || text[1] == 'o' || text[1] == 'O';
    text.remove_prefix(has_letter ? 2 : 1);
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  constexpr std::uint64_t signed_limit = std::uint64_t{1} << 63;
  if (number < signed_limit)
    return is_negative ? -static_cast<std::int64_t>(number) : static_cast<std::int64_t>(number);
  if (is_negative) return {};
  return number;
}

/// kubectl sends 1000.0 and 1e3 as 1000.
json as_sent(double number) {
  constexpr double limit = 9223372036854775808.0;  // 2^63
  if (std::trunc(number) == number && std::abs(number) < limit) return static_cast<std::int64_t>(number);
  return number;
}

void skip_sign(std::string_view& text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
}

/// Takes the digits off the front of `text`, and returns their number.
std::size_t skip_digits(std::string_view& text) {
  const std::size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(count);
  return count;
}

/// True for digits with an optional sign, point and exponent. Not by std::regex, whose stack ends in a long text.
bool is_decimal(std::string_view text) {
  skip_sign(text);
  std::size_t digits = skip_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    digits += skip_digits(text);
  }
  if (digits == 0) return false;
  if (!text.starts_with('e') && !text.starts_with('E')) return text.empty();
  text.remove_prefix(1);
  skip_sign(text);
  return skip_digits(text) > 0 && text.empty();
}

constexpr std::array<std::string_view, 3> infinity_words{".inf", ".Inf", ".INF"};
constexpr std::array<std::string_view, 3> nan_words{".nan", ".NaN", ".NAN"};

std::optional<json> as_float(const std::string& text, YAML::Mark mark) {
  std::string_view unsigned_text = text;
  skip_sign(unsigned_text);
  if (is_one_of(unsigned_text, infinity_words) || is_one_of(text, nan_words))
    throw Refused{mark, fmt::format("{} cannot be written as JSON", text)};
  if (!is_decimal(text)) return {};
  const double number = std::strtod(text.c_str(), nullptr);
  if (!std::isfinite(number)) return {};
  return as_sent(number);
}

json plain_scalar(const std::string& text, YAML::Mark mark) {
  if (is_one_of(text, null_words)) return nullptr;
  if (is_one_of(text, true_words)) return true;
  if (is_one_of(text, false_words)) return false;
  constexpr std::string_view number_starts = "+-.0123456789";
  if (number_starts.find(text.front()) == std::string_view::npos) return text;
  std::string digits = text;
  std::erase(digits, '_');
  if (auto integer = read_integer(digits)) return *integer;
  if (auto number = as_float(digits, mark)) return *number;
  return text;
}

/// The value of a scalar whose tag names its type (!!int), quoted or not.
json tagged_scalar(const std::string& text, std::string_view type, YAML::Mark mark) {
  const json value = plain_scalar(text, mark);
  const bool is_right = type == "int"     ? value.is_number_integer()
                        : type == "float" ? value.is_number()
                        : type == "bool"  ? value.is_boolean()
                                          : value.is_null();
  if (!is_right) throw Refused{mark, fmt::format("'{}' is no !!{}", text, type)};
  return value;
}

json scalar(const YAML::Node& node) {
  const std::string& tag = node.Tag();
  if (tag == "?" || tag.empty()) return plain_scalar(node.Scalar(), node.Mark());
  for (const std::string_view type : {"int", "float", "bool", "null"}) {
    if (tag == fmt::format("tag:yaml.org,2002:{}", type)) return tagged_scalar(node.Scalar(), type, node.Mark());
  }
  return node.Scalar();
}

class Converter {
 public:
  json convert(const YAML::Node& node) {
    if (++values_ > values_max) throw Refused{node.Mark(), fmt::format("more than {} values", values_max)};
    const Depth depth{depth_, node.Mark()};
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return scalar(node);
      case YAML::NodeType::Sequence:
        return convert_list(node);
      case YAML::NodeType::Map:
        return convert_map(node);
      default:
        return nullptr;
    }
  }

 private:
  class Depth {
   public:
    Depth(int& depth, YAML::Mark mark) : depth_{depth} {
      if (depth_ == depth_max) throw Refused{mark, fmt::format("nested deeper than {} levels", depth_max)};
      ++depth_;
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --depth_; }

   private:
    int& depth_;
  };

  json convert_list(const YAML::Node& node) {
    json list = json::array();
    for (const YAML::Node& item : node) list.push_back(convert(item));
    return list;
  }

  json convert_map(const YAML::Node& node) {
    json own = json::object();
    json merged = json::object();
    for (const auto& entry : node) {
      const YAML::Node& key = entry.first;
      const YAML::Node& value = entry.second;
      if (!key.IsScalar()) throw Refused{key.Mark(), "a key must be a scalar"};
      if (key.Tag() == "?" && key.Scalar() == "<<") {
        merge(value, merged);
        continue;
      }
      const std::string name = key_name(key);
      if (own.contains(name)) throw Refused{key.Mark(), fmt::format("{} is given twice", name)};
      own[name] = convert(value);
    }
    merged.update(own);
    return merged;
  }

  void merge(const YAML::Node& source, json& into) {
    // If several sources have a key, the first one wins.
    if (source.IsSequence()) {
      const Depth depth{depth_, source.Mark()};
      for (const YAML::Node& item : source) merge(item, into);
    } else if (source.IsMap()) {
      const json values = convert(source);
      for (const auto& [name, value] : values.items()) {
        if (!into.contains(name)) into[name] = value;
      }
    } else {
      throw Refused{source.Mark(), "<< takes a map or a list of maps"};
    }
  }

  static std::string key_name(const YAML::Node& key) {
    const json value = scalar(key);
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  std::size_t values_ = 0;
  int depth_ = 0;
};

/// The place of the first byte that is not UTF-8; a null mark if `text` is UTF-8.
YAML::Mark first_wrong_byte(std::string_view text) {
  YAML::Mark mark;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = utf8_character_bytes(text.substr(at));
    if (count == 0) return mark;
    const bool is_line_end = text[at] == '\n';
    mark.line += is_line_end ? 1 : 0;
    mark.column = is_line_end ? 0 : mark.column + 1;
    at += count;
  }
  return YAML::Mark::null_mark();
}

tl::unexpected<Error> refused(YAML::Mark mark, std::string_view sentence) {
  if (mark.is_null()) return fail(ErrorKind::invalid, fmt::format("YAML: {}", sentence));
  return fail(ErrorKind::invalid,
              fmt::format("YAML, line {}, column {}: {}", mark.line + 1, mark.column + 1, sentence));
}

/// `value` with its numbers as kubectl sends them.
json with_sent_numbers(json value) {
  if (value.is_number_float()) return as_sent(value.get<double>());
  if (value.is_structured()) {
    for (auto& item : value) item = with_sent_numbers(std::move(item));
  }
  return value;
}

/// Reads `text` as JSON, whose strings may have escapes that YAML does not know. Empty if `text` is not JSON, or has a
/// fault for which the YAML reader reports line and column: a duplicate key, too many levels.
std::optional<json> as_json(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || text[begin] != '{') return std::nullopt;
  bool is_good = true;
  std::vector<std::set<std::string>> keys;  // One set for each object that is still open.
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    is_good &= depth < depth_max;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) is_good &= keys.back().insert(parsed.get<std::string>()).second;
    return is_good;
  };
  json value = json::parse(text, watch, /*allow_exceptions=*/false);
  if (!is_good || value.is_discarded()) return std::nullopt;
  return with_sent_numbers(std::move(value));
}

/// The number, from 0, of a line that is indented with a tab: the line `error_line` or the one before it. Empty if
/// neither is. yaml-cpp's own message does not mention tabs.
std::optional<int> tab_line(std::string_view text, int error_line) {
  int line = 0;
  for (std::size_t at = 0; at < text.size() && line <= error_line; ++line) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto indent = text.substr(at, text.find_first_not_of(" \t", at) - at);
    if (line + 1 >= error_line && indent.find('\t') != std::string_view::npos) return line;
    at = end + 1;
  }
  return std::nullopt;
}

/// The result of `read`, or the error that it throws.
template <typename Read>
auto without_exceptions(std::string_view text, const Read& read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (const Refused& error) {
    return refused(error.mark, error.sentence);
  } catch (const YAML::Exception& error) {
    if (const auto line = tab_line(text, error.mark.line)) {
      YAML::Mark mark;
      mark.line = *line;
      return refused(mark, "indent with spaces, not with tabs");
    }
    return refused(error.mark, error.msg);
  }
}

}  // namespace

Result<std::vector<json>> parse_yaml(std::string_view text) {
  if (const YAML::Mark wrong = first_wrong_byte(text); !wrong.is_null()) return refused(wrong, "this is no UTF-8 text");
  if (auto object = as_json(text)) return std::vector<json>{*std::move(object)};
  return without_exceptions(text, [&] {
    std::vector<json> documents;
    for (const YAML::Node& node : YAML::LoadAll(std::string{text})) {
      json document = Converter{}.convert(node);
      if (!document.is_null()) documents.push_back(std::move(document));
    }
    return documents;
  });
}

Result<json> json_of(const YAML::Node& node) {
  return without_exceptions({}, [&] { return Converter{}.convert(node); });
}

}  // namespace trainyard::api

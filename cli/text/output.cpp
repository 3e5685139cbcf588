#include "cli/text/output.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include "common/check.hpp"
#include "common/text.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;

bool is_plain_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '/' || c == ' ' || c == '(' || c == ')' || c == '+';
}

/// True if `text` needs no quotes in any YAML version: it begins with a letter or '/', has no special characters, and
/// is no word such as yes, null or inf.
bool is_plain(const std::string& text) {
  static constexpr std::string_view words[] = {"y", "n", "yes",   "no",   "on",  "off", "true",
                                               "t", "f", "false", "null", "nan", "inf"};
  if (text.empty() || text.back() == ' ' || text.back() == ':') return false;
  const char first = text.front();
  if (!((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '/')) return false;
  const auto is_good = [](char c) { return is_plain_character(c) || c == ':'; };
  if (!std::all_of(text.begin(), text.end(), is_good) || text.find(": ") != std::string::npos) return false;
  const std::string lower = to_lower(text);
  return std::find(std::begin(words), std::end(words), lower) == std::end(words);
}

bool is_block(const std::string& text) {
  return text.find('\n') != std::string::npos && text.front() != ' ' && text.front() != '\n' && text.front() != '\t' &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\n' || c == '\t' || static_cast<unsigned char>(c) >= 0x20; });
}

void write_block(const std::string& text, std::size_t indent, std::string& out) {
  // "|-", "|" and "|+" mean that the text ends with no, one, or more line ends.
  const std::size_t last = text.find_last_not_of('\n');
  const std::size_t line_ends = text.size() - 1 - last;
  out += line_ends == 0 ? "|-" : line_ends == 1 ? "|" : "|+";
  out += '\n';
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) out += std::string(indent, ' ') + text.substr(begin, end - begin);
    out += '\n';
    begin = end + 1;
  }
}

/// `value` as in JSON, except that 1e-05 becomes 1.0e-05: readers of YAML 1.1 would take the former for text.
std::string scalar_text(const json& value) {
  std::string text = value.dump();
  const auto exponent = text.find('e');
  if (value.is_number_float() && exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

void write_value(const json& value, std::size_t indent, std::string& out);

/// Writes `value` after "key:" or "-": on the same line if it is a scalar or empty, else on the next lines.
void write_after(const json& value, std::size_t indent, std::string& out) {
  if (value.is_string() && is_block(value.get_ref<const std::string&>())) {
    out += ' ';
    write_block(value.get_ref<const std::string&>(), indent, out);
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    // A JSON string is also a double-quoted YAML string.
    out += " " + (is_plain(text) ? text : value.dump()) + "\n";
  } else if (!value.is_structured() || value.empty()) {
    out += " " + scalar_text(value) + "\n";
  } else {
    out += '\n';
    write_value(value, indent, out);
  }
}

void write_value(const json& value, std::size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      out += margin + (is_plain(key) ? key : json(key).dump()) + ":";
      write_after(item, item.is_array() ? indent : indent + 2, out);
    }
    return;
  }
  for (const auto& item : value) {
    std::string text;
    write_after(item, indent + 2, text);
    // A structure begins on the dash's own line.
    const bool is_structure = item.is_structured() && !item.empty();
    out += margin + "-" + (is_structure ? " " + text.substr(indent + 3) : text);
  }
}

}  // namespace

void add_output(CLI::App& command, OutputFormat& format, const std::string& text_name) {
  command
      .add_option_function<std::string>(
          "-o,--output",
          [&format](const std::string& name) {
            format = name == "json" ? OutputFormat::json : name == "yaml" ? OutputFormat::yaml : OutputFormat::text;
          },
          fmt::format("Output format; json and yaml have exact numbers, for programs [{}]", text_name))
      ->check(CLI::IsMember({text_name, std::string{"json"}, std::string{"yaml"}}))
      ->type_name("FORMAT");
}

std::string document_text(const nlohmann::json& document, OutputFormat format) {
  check(format != OutputFormat::text, "a document is JSON or YAML");
  return format == OutputFormat::json ? document.dump(2) + "\n" : to_yaml(document);
}

std::string to_yaml(const json& value) {
  std::string out;
  if (value.is_structured() && !value.empty()) {
    write_value(value, 0, out);
    return out;
  }
  write_after(value, 2, out);
  return out.substr(1);
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string printable(std::string_view text) {
  std::string out{text};
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return out;
}

std::string table(const std::vector<Row>& rows, const std::vector<bool>& is_right_aligned) {
  std::vector<std::size_t> widths(is_right_aligned.size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? "" : "   ";
      line += is_right_aligned[i] ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace trainyard::cli

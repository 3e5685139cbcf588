#include "cli/snapshots/files.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/text/output.hpp"

namespace trainyard::cli {
namespace {

using snapshot::History;
using snapshot::Image;
using snapshot::Point;

std::string field(const std::string& name) {
  const std::string text = printable(name);
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char character : text) quoted += character == '"' ? "\"\"" : std::string{character};
  return quoted + '"';
}

std::string row(const Point& point) {
  return fmt::format("{},{},{},{}", point.step, field(point.name), to_string(point.over), point.value);
}

std::string file_stem(const std::string& name) {
  constexpr std::size_t bytes_max = 200;
  std::string stem;
  for (const char character : name.substr(0, bytes_max)) {
    const bool is_plain = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
                          (character >= '0' && character <= '9') || character == '-' ||
                          (character == '.' && !stem.empty());
    stem += is_plain ? character : '_';
  }
  return stem.empty() ? "_" : stem;
}

}  // namespace

std::string points_csv(std::span<const Point> points) {
  std::string text = "step,name,over,value\n";
  for (const Point& point : points) text += row(point) + "\n";
  return text;
}

std::string history_csv(std::span<const History::RunPoint> entries) {
  std::string text = "step,name,over,value,generation\n";
  for (const History::RunPoint& entry : entries) text += fmt::format("{},{}\n", row(entry.point), entry.generation);
  return text;
}

nlohmann::json history_json(std::span<const History::RunPoint> entries) {
  nlohmann::json list = nlohmann::json::array();
  for (const History::RunPoint& entry : entries) {
    list.push_back({{"step", entry.point.step},
                    {"name", entry.point.name},
                    {"over", to_string(entry.point.over)},
                    {"value", entry.point.value},
                    {"generation", entry.generation}});
  }
  return list;
}

std::vector<std::string> file_names(std::span<const Image> images) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const Image& image : images) {
    const std::string stem = file_stem(image.name);
    std::string name = stem;
    for (int number = 2; !taken.insert(name).second; ++number) name = fmt::format("{}-{}", stem, number);
    names.push_back(name + ".png");
  }
  return names;
}

}  // namespace trainyard::cli

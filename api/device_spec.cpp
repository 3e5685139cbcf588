#include "api/device_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "common/text.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

constexpr EnumNames<Accelerator, 4> accelerator_names{{{"auto", Accelerator::by_machine},
                                                       {"cpu", Accelerator::cpu},
                                                       {"gpu", Accelerator::gpu},
                                                       {"cuda", Accelerator::gpu}}};

/// Also bounds what a long text can make us hold.
constexpr std::int64_t device_count_max = 1024;

tl::unexpected<Error> no_choice(std::string_view text, std::string_view fault) {
  return fail(ErrorKind::invalid,
              fmt::format("'{}' does not choose devices: {}; write a number of devices (3), -1 for all, or their "
                          "numbers ('[1, 3]', or '1,' for number 1 alone)",
                          keep_beginning(text, 80), fault));
}

Result<DeviceChoice> parse_list(std::string_view text, std::string_view list) {
  DeviceChoice choice{.kind = DeviceChoice::Kind::listed, .count = 0};
  while (!trim(list).empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view word = trim(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    const auto index = parse_number<std::int64_t>(word);
    if (!index) return no_choice(text, fmt::format("'{}' is not a whole number", keep_beginning(word, 80)));
    if (*index < 0 || *index >= device_count_max)
      return no_choice(text, fmt::format("{} is not a device number", *index));
    if (std::ranges::find(choice.indices, *index) != choice.indices.end())
      return no_choice(text, fmt::format("device {} is there twice", *index));
    choice.indices.push_back(*index);
  }
  if (choice.indices.empty()) return no_choice(text, "it names none");
  return choice;
}

}  // namespace

Result<DeviceChoice> parse_devices(std::string_view text) {
  std::string_view list = trim(text);
  const bool is_in_brackets = list.starts_with('[') && list.ends_with(']') && list.size() >= 2;
  if (is_in_brackets) return parse_list(text, list.substr(1, list.size() - 2));
  if (list.find(',') != std::string_view::npos) return parse_list(text, list);
  const auto count = parse_number<std::int64_t>(list);
  if (!count) return no_choice(text, "it is not a whole number");
  if (*count == -1) return DeviceChoice{};
  if (*count < 1 || *count > device_count_max)
    return no_choice(text, fmt::format("the number of devices is 1 to {}, or -1", device_count_max));
  return DeviceChoice{.kind = DeviceChoice::Kind::first, .count = *count};
}

std::string to_string(const DeviceChoice& choice) {
  switch (choice.kind) {
    case DeviceChoice::Kind::all:
      return "-1";
    case DeviceChoice::Kind::first:
      return std::to_string(choice.count);
    case DeviceChoice::Kind::listed:
      break;
  }
  return fmt::format("[{}]", fmt::join(choice.indices, ", "));
}

void read_devices(FieldReader& training, DeviceSpec& spec) {
  training.read("accelerator", spec.accelerator, accelerator_names);
  const json* found = training.find("devices");
  if (found == nullptr) return;
  const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
  if (text == "auto") return;
  auto choice = parse_devices(text);
  if (!choice) return training.report("devices", choice.error().message);
  spec.devices = std::move(*choice);
}

void add_devices(json& training, const DeviceSpec& spec) {
  for (const auto& [name, accelerator] : accelerator_names) {
    if (accelerator != spec.accelerator || spec.accelerator == Accelerator::by_machine) continue;
    training["accelerator"] = name;
    break;
  }
  if (spec.devices) training["devices"] = to_string(*spec.devices);
}

}  // namespace trainyard::api

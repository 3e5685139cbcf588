#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/field_reader.hpp"
#include "common/result.hpp"

/// `spec.training.accelerator` and `spec.training.devices` of a TrainingJob: what its ranks train on. crds/ describes
/// the fields; docs/launching.md explains them together.
namespace trainyard::api {

enum class Accelerator {
  by_machine,  ///< GPUs where there are any, else the CPU.
  cpu,
  gpu,  ///< A rank without a GPU does not train.
};

/// The devices that a user asks for, in the words of PyTorch Lightning's `devices` but for `auto`.
struct DeviceChoice {
  enum class Kind { all, first, listed };
  Kind kind = Kind::all;
  std::int64_t count = 0;               ///< first: so many, at least 1.
  std::vector<std::int64_t> indices{};  ///< listed: their numbers, each once.
  bool operator==(const DeviceChoice&) const = default;
};

/// Reads `3` (the first three), `-1` (all), `[1, 3]` or `1, 3` (these two), and `1,` (number 1 alone). Pure.
/// ErrorKind::invalid says what is wrong with any other text.
[[nodiscard]] Result<DeviceChoice> parse_devices(std::string_view text);
/// Text that parse_devices() reads as `choice`.
[[nodiscard]] std::string to_string(const DeviceChoice& choice);

/// Which devices a training's ranks use.
struct DeviceSpec {
  Accelerator accelerator = Accelerator::by_machine;
  std::optional<DeviceChoice> devices;  ///< Of each node, one for each of its ranks. Absent: the first ones.
  bool operator==(const DeviceSpec&) const = default;
};

void read_devices(FieldReader& training, DeviceSpec& spec);
/// Adds the fields that say something to `training`.
void add_devices(nlohmann::json& training, const DeviceSpec& spec);

}  // namespace trainyard::api

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::local {

/// The GPUs that this process may assign, by their names for CUDA_VISIBLE_DEVICES: those in `visible_devices` if it is
/// set, else one for each nvidia<N> in `device_folder`.
[[nodiscard]] std::vector<std::string> find_gpus(const std::optional<std::string>& visible_devices,
                                                 std::string_view device_folder = "/dev");

/// `gpus` without `taken`. Each name in `taken` removes one equal name: a name that occurs twice is two GPUs.
[[nodiscard]] std::vector<std::string> without_taken(std::vector<std::string> gpus,
                                                     const std::vector<std::string>& taken);

}  // namespace trainyard::local

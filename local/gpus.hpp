#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::local {

/// The GPUs that this process may give out, as they stand in CUDA_VISIBLE_DEVICES: those of that variable where it is
/// set, else one for each /dev/nvidia<N> under `device_folder`.
[[nodiscard]] std::vector<std::string> find_gpus(const std::optional<std::string>& visible_devices,
                                                 std::string_view device_folder = "/dev");

/// `gpus` without those of `taken`, each of which is one of them: a name that is there twice is two GPUs.
[[nodiscard]] std::vector<std::string> without_taken(std::vector<std::string> gpus,
                                                     const std::vector<std::string>& taken);

}  // namespace trainyard::local

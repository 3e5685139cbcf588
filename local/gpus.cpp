#include "local/gpus.hpp"

#include <algorithm>
#include <filesystem>

namespace trainyard::local {

std::vector<std::string> find_gpus(const std::optional<std::string>& visible_devices, std::string_view device_folder) {
  std::vector<std::string> gpus;
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{device_folder, error}) {
    const std::string name = entry.path().filename();
    const bool is_gpu = name.starts_with("nvidia") && name.size() > 6 &&
                        std::all_of(name.begin() + 6, name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (is_gpu) ++count;
  }
  // Without devices the variable means nothing.
  if (count == 0) return gpus;
  if (!visible_devices) {
    // CUDA counts from 0 whatever numbers the device files have.
    for (std::size_t index = 0; index < count; ++index) gpus.push_back(std::to_string(index));
    return gpus;
  }
  for (std::size_t begin = 0; begin < visible_devices->size();) {
    const auto end = std::min(visible_devices->find(',', begin), visible_devices->size());
    std::string gpu = visible_devices->substr(begin, end - begin);
    // CUDA ignores all devices from the first invalid one on; users write -1 for it.
    if (gpu.empty() || gpu == "-1") break;
    gpus.push_back(std::move(gpu));
    begin = end + 1;
  }
  return gpus;
}

std::vector<std::string> without_taken(std::vector<std::string> gpus, const std::vector<std::string>& taken) {
  for (const std::string& gpu : taken) {
    const auto found = std::ranges::find(gpus, gpu);
    if (found != gpus.end()) gpus.erase(found);
  }
  return gpus;
}

}  // namespace trainyard::local

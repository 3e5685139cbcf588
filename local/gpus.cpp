#include "local/gpus.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <utility>

#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::local {
Result<std::vector<std::string>> choose_gpus(const api::DeviceChoice& choice, const std::vector<std::string>& gpus) {
  const std::string available =
      gpus.empty() ? "this machine has no GPU" : fmt::format("this machine has {}, counted from 0", gpus.size());
  std::vector<std::string> chosen;
  switch (choice.kind) {
    case api::DeviceChoice::Kind::all:
      if (gpus.empty()) return fail(ErrorKind::invalid, fmt::format("all GPUs are asked for, but {}", available));
      return gpus;
    case api::DeviceChoice::Kind::first:
      if (choice.count > static_cast<std::int64_t>(gpus.size()))
        return fail(ErrorKind::invalid,
                    fmt::format("{} asked for, but {}",
                                choice.count == 1 ? "1 GPU is" : fmt::format("{} GPUs are", choice.count), available));
      chosen.assign(gpus.begin(), gpus.begin() + choice.count);
      return chosen;
    case api::DeviceChoice::Kind::listed:
      break;
  }
  for (const std::int64_t index : choice.indices) {
    if (index >= static_cast<std::int64_t>(gpus.size())) {
      return fail(ErrorKind::invalid,
                  fmt::format("GPU{} {} {} asked for, but {}", choice.indices.size() == 1 ? "" : "s",
                              fmt::join(choice.indices, ", "), choice.indices.size() == 1 ? "is" : "are", available));
    }
    chosen.push_back(gpus[static_cast<std::size_t>(index)]);
  }
  return chosen;
}

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

namespace {

/// NVIDIA's management library, of which every driver has one. It is looked for at run time: most machines have none.
class Nvml {
 public:
  using Device = void*;

  static Result<Nvml> open(const std::string& library) {
    void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return fail(ErrorKind::unavailable, fmt::format("loading {}: {}", library, ::dlerror()));
    Nvml nvml{handle};
    for (const char* name :
         {"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetHandleByIndex_v2",
          "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUUID", "nvmlDeviceGetComputeRunningProcesses"}) {
      if (::dlsym(handle, name) == nullptr)
        return fail(ErrorKind::unavailable, fmt::format("{} has no function {}", library, name));
    }
    TRY(nvml.check(nvml.function<int()>("nvmlInit_v2")(), "nvmlInit_v2"));
    nvml.is_initialised_ = true;
    return nvml;
  }
  ~Nvml() {
    if (handle_ && is_initialised_) function<int()>("nvmlShutdown")();
  }
  Nvml(Nvml&&) = default;
  Nvml& operator=(Nvml&&) = delete;

  Result<Device> device_of(const std::string& gpu) {
    Device device = nullptr;
    const auto index = parse_number<unsigned>(gpu);
    const int code = index ? function<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2")(*index, &device)
                           : function<int(const char*, Device*)>("nvmlDeviceGetHandleByUUID")(gpu.c_str(), &device);
    if (code != success) return fail(ErrorKind::not_found, fmt::format("GPU {}: {}", gpu, text_of(code)));
    return device;
  }
  Result<std::string> uuid_of(Device device) {
    std::array<char, 96> text{};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
    TRY(check(function<int(Device, char*, unsigned)>("nvmlDeviceGetUUID")(device, text.data(), text.size()),
              "nvmlDeviceGetUUID"));
    text.back() = '\0';
    return std::string{text.data()};
  }
  Result<bool> is_used(Device device) {
    // Without room for the list the call says only whether there is anything to list.
    unsigned count = 0;
    const int code =
        function<int(Device, unsigned*, void*)>("nvmlDeviceGetComputeRunningProcesses")(device, &count, nullptr);
    if (code == insufficient_size) return true;
    TRY(check(code, "nvmlDeviceGetComputeRunningProcesses"));
    return count > 0;
  }

 private:
  static constexpr int success = 0;
  static constexpr int insufficient_size = 7;

  explicit Nvml(void* handle) : handle_{handle} {}

  template <typename Signature>
  [[nodiscard]] Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(::dlsym(handle_.get(), name));
  }
  [[nodiscard]] std::string text_of(int code) const { return function<const char*(int)>("nvmlErrorString")(code); }
  [[nodiscard]] Result<void> check(int code, std::string_view call) const {
    if (code == success) return {};
    return fail(ErrorKind::unavailable, fmt::format("{}: {}", call, text_of(code)));
  }

  struct Close {
    void operator()(void* handle) const { ::dlclose(handle); }
  };

  std::unique_ptr<void, Close> handle_;
  bool is_initialised_ = false;
};

}  // namespace

Result<std::vector<std::string>> find_free_gpus(const std::vector<std::string>& gpus, const std::string& library) {
  auto nvml = TRY(Nvml::open(library));
  std::vector<std::string> free;
  for (const std::string& gpu : gpus) {
    const auto device = TRY(nvml.device_of(gpu));
    const auto is_used = TRY(nvml.is_used(device));
    if (is_used) continue;
    auto uuid = TRY(nvml.uuid_of(device));
    free.push_back(std::move(uuid));
  }
  return free;
}

Result<std::vector<std::string>> choose_free_gpus(const std::optional<api::DeviceChoice>& choice,
                                                  std::vector<std::string> free, std::size_t gpu_count) {
  if (free.empty()) {
    return fail(ErrorKind::unavailable,
                fmt::format("other processes use all {} GPUs of this machine (nvidia-smi lists them)", gpu_count));
  }
  if (!choice || choice->kind != api::DeviceChoice::Kind::first) return free;
  const auto asked = static_cast<std::size_t>(choice->count);
  if (free.size() < asked) {
    return fail(ErrorKind::unavailable, fmt::format("{} GPUs are asked for, and other processes use {} of the {} of "
                                                    "this machine (nvidia-smi lists them)",
                                                    asked, gpu_count - free.size(), gpu_count));
  }
  free.resize(asked);
  return free;
}

std::vector<std::string> without_taken(std::vector<std::string> gpus, const std::vector<std::string>& taken) {
  for (const std::string& gpu : taken) {
    const auto found = std::ranges::find(gpus, gpu);
    if (found != gpus.end()) gpus.erase(found);
  }
  return gpus;
}

}  // namespace trainyard::local

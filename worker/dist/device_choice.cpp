#include "worker/dist/device_choice.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "api/contract.hpp"
#include "common/try.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::dist {
namespace {

// Results of the CUDA driver API (CUresult in cuda.h), which a build without CUDA's headers needs too.
constexpr int success = 0;
constexpr int stub_library = 34;  // From the CUDA toolkit's stub of libcuda, which exists only for linking.
constexpr int no_device = 100;

std::string describe_result(void* driver, const char* call, int result) {
  using GetErrorName = int (*)(int, const char**);
  const auto get_error_name = reinterpret_cast<GetErrorName>(dlsym(driver, "cuGetErrorName"));
  const char* name = nullptr;
  if (get_error_name == nullptr || get_error_name(result, &name) != success || name == nullptr)
    return fmt::format("{} returned error {}", call, result);
  return fmt::format("{} returned error {} ({})", call, result, name);
}

DriverAnswer ask_library() {
  // Never unloaded: torch uses the same library.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {.trouble = dlerror()};
  using Init = int (*)(unsigned int);
  using GetCount = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<GetCount>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || get_count == nullptr)
    return {.is_present = true, .trouble = "libcuda.so.1 is not an NVIDIA driver: it lacks cuInit or cuDeviceGetCount"};
  if (const int result = init(0); result != success) {
    if (result == stub_library) return {.trouble = describe_result(driver, "cuInit", result)};
    if (result == no_device) return {.is_present = true};
    return {.is_present = true, .trouble = describe_result(driver, "cuInit", result)};
  }
  int count = 0;
  if (const int result = get_count(&count); result != success)
    return {.is_present = true, .trouble = describe_result(driver, "cuDeviceGetCount", result)};
  return {.is_present = true, .devices = count};
}

}  // namespace

DriverAnswer ask_gpu_driver() {
  DriverAnswer answer = ask_library();
  answer.visible_devices = rank::exact_variable("CUDA_VISIBLE_DEVICES");
  return answer;
}

namespace {

using Device = std::optional<std::int64_t>;

constexpr std::string_view gpu = "gpu";
constexpr std::string_view cpu = "cpu";
constexpr std::size_t named_ranks_max = 8;

std::string gpus_text(std::int64_t count) {
  return count == 1 ? "1 GPU" : fmt::format("{} GPUs", count);
}

std::string on_cpu_text() {
  return fmt::format("set {}=0 to train on the CPU", contract::env_gpus_per_pod);
}

/// At most so many GPUs are visible by `names`, a value of CUDA_VISIBLE_DEVICES: the driver ignores what follows the
/// first name that names none, such as -1.
std::int64_t count_visible(std::string_view names) {
  std::int64_t count = 0;
  while (!names.empty() && names.front() != '-' && names.front() != ',') {
    ++count;
    const auto comma = names.find(',');
    names = comma == std::string_view::npos ? std::string_view{} : names.substr(comma + 1);
  }
  return count;
}

Result<Device> choose_of_promised(const DeviceFacts& facts, std::int64_t promised) {
  if (!facts.cuda_module) {
    return fail(ErrorKind::not_found,
                fmt::format("spec.gpusPerPod promises this pod {}, but its program cannot use any: {}; use the CUDA "
                            "image of the worker, or gpusPerPod: 0",
                            gpus_text(promised), facts.cuda_module.error().message));
  }
  const DriverAnswer& driver = facts.driver;
  if (driver.visible_devices && count_visible(*driver.visible_devices) < promised) {
    return fail(ErrorKind::invalid,
                fmt::format("spec.gpusPerPod promises this pod {}, but its variable CUDA_VISIBLE_DEVICES is \"{}\" and "
                            "hides GPUs on any node: leave that variable out, or set gpusPerPod to what it names",
                            gpus_text(promised), *driver.visible_devices));
  }
  const auto missing = [&](const std::string& what) {
    return fail(ErrorKind::unavailable, fmt::format("spec.gpusPerPod promises this pod {}, but on {} {}",
                                                    gpus_text(promised), facts.node, what));
  };
  if (!driver.is_present) {
    return missing(
        fmt::format("its container has no NVIDIA driver ({}): look at the node's device plugin and container "
                    "runtime",
                    driver.trouble));
  }
  if (!driver.trouble.empty()) return missing(fmt::format("the driver fails: {}", driver.trouble));
  if (driver.devices < promised) return missing(fmt::format("the driver shows {}", gpus_text(driver.devices)));
  if (facts.local_rank >= driver.devices) {
    return fail(ErrorKind::invalid,
                fmt::format("LOCAL_RANK is {}, but the driver shows {}", facts.local_rank, gpus_text(driver.devices)));
  }
  return facts.local_rank;
}

Result<Device> choose_of_visible(const DeviceFacts& facts) {
  const DriverAnswer& driver = facts.driver;
  if (!driver.is_present) return std::nullopt;
  if (!driver.trouble.empty()) {
    return fail(ErrorKind::unavailable,
                fmt::format("the NVIDIA driver on {} fails: {}; {}", facts.node, driver.trouble, on_cpu_text()));
  }
  if (driver.devices == 0) return std::nullopt;
  if (!facts.cuda_module) {
    return fail(ErrorKind::not_found,
                fmt::format("the driver shows {}, but this program cannot use any: {}; use the CUDA build of the "
                            "worker, or {}",
                            gpus_text(driver.devices), facts.cuda_module.error().message, on_cpu_text()));
  }
  if (facts.local_rank >= driver.devices) {
    return fail(ErrorKind::invalid,
                fmt::format("LOCAL_RANK is {}, but the driver shows {}: start as many ranks as there are GPUs, or {}",
                            facts.local_rank, gpus_text(driver.devices), on_cpu_text()));
  }
  return facts.local_rank;
}

std::string ranks_text(const std::vector<std::size_t>& ranks) {
  const std::vector<std::size_t> named{
      ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), named_ranks_max))};
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(named, ", "));
  if (named.size() < ranks.size()) text += fmt::format(" and {} more", ranks.size() - named.size());
  return text;
}

}  // namespace

Result<Device> choose_device(const DeviceFacts& facts) {
  if (!facts.promised) return choose_of_visible(facts);
  if (*facts.promised == 0) return std::nullopt;
  return choose_of_promised(facts, *facts.promised);
}

Result<void> agree_on_device_kind(bool has_gpu, checkpoint::Communicator& communicator) {
  const auto kinds = TRY(communicator.all_gather(has_gpu ? gpu : cpu));
  std::vector<std::size_t> without;
  for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
    if (kinds[rank] == cpu) without.push_back(rank);
  }
  if (without.empty() || without.size() == kinds.size()) return {};
  return fail(ErrorKind::conflict,
              fmt::format("{} of {} {} no GPU, but the others do: a group trains on GPUs or on the CPU; look at the "
                          "drivers of those machines, or {} for all ranks",
                          ranks_text(without), kinds.size(), without.size() == 1 ? "sees" : "see", on_cpu_text()));
}

}  // namespace trainyard::dist

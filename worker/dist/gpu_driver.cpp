#include "worker/dist/gpu_driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

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

}  // namespace trainyard::dist

// A fake libcuda.so.1 for programs that are started with its folder in LD_LIBRARY_PATH. It shows FAKE_DRIVER_GPUS
// devices, or cuInit returns FAKE_DRIVER_ERROR.
#include <cstdlib>
#include <cstring>

namespace {

int number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int cuInit(unsigned int /*flags*/) {
  return number_of("FAKE_DRIVER_ERROR");
}

__attribute__((visibility("default"))) int cuDeviceGetCount(int* count) {
  *count = number_of("FAKE_DRIVER_GPUS");
  return 0;
}

__attribute__((visibility("default"))) int cuGetErrorName(int /*error*/, const char** name) {
  *name = "CUDA_ERROR_OF_A_TEST";
  return 0;
}
}

// A stand-in for NVIDIA's management library, for gpus_test. The variable FAKE_NVML has a word for each GPU, such as
// "GPU-a:2 GPU-b:0": its UUID, and how many processes compute on it. "broken" fails the initialisation.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct FakeGpu {
  std::string uuid;
  unsigned processes = 0;
};
std::vector<FakeGpu> gpus;

constexpr int success = 0, not_found = 6, insufficient_size = 7, driver_not_loaded = 9;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* const given = std::getenv("FAKE_NVML");
  if (given == nullptr || std::string{given} == "broken") return driver_not_loaded;
  gpus.clear();
  std::istringstream words{given};
  for (std::string word; words >> word;) {
    const auto colon = word.find(':');
    gpus.push_back({word.substr(0, colon), static_cast<unsigned>(std::stoul(word.substr(colon + 1)))});
  }
  return success;
}
int nvmlShutdown() {
  return success;
}
const char* nvmlErrorString(int code) {
  return code == not_found ? "Not Found" : "Driver Not Loaded";
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= gpus.size()) return not_found;
  *device = &gpus[index];
  return success;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (FakeGpu& gpu : gpus) {
    if (gpu.uuid != uuid) continue;
    *device = &gpu;
    return success;
  }
  return not_found;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  std::strncpy(uuid, static_cast<FakeGpu*>(device)->uuid.c_str(), length);
  return success;
}
int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, void* /*infos*/) {
  const unsigned processes = static_cast<FakeGpu*>(device)->processes;
  const bool has_room = processes <= *count;
  *count = processes;
  return has_room ? success : insufficient_size;
}
}

#include "worker/dist/cuda_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace trainyard::dist {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view module_name = "libtrainyard_cuda.so";
constexpr std::string_view driver_device = "/dev/nvidiactl";

}  // namespace

bool sees_gpu(const launcher::Environment& environment) {
  for (const std::string_view name : {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}) {
    const auto devices = environment(name);
    if (devices == "-1" || devices == "none" || devices == "void" || devices == "NoDevFiles") return false;
  }
  return fs::exists(driver_device);
}

Result<const CudaModule*> load_cuda_module(const launcher::Environment& environment) {
  if (!sees_gpu(environment)) return nullptr;
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& path : {folder / module_name, folder.parent_path() / "lib" / module_name}) {
    if (!fs::exists(path)) continue;
    // Never unloaded: torch keeps pointers into it. Global, for its registrations are looked up by name.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) {
      return fail(ErrorKind::internal,
                  fmt::format("this machine has a GPU, but {} does not load: {}", path.string(), dlerror()));
    }
    using Get = const CudaModule* (*)();
    const auto get = reinterpret_cast<Get>(dlsym(module, "trainyard_cuda_module"));
    if (get == nullptr) {
      return fail(ErrorKind::internal,
                  fmt::format("{} is of another version of Trainyard: {}", path.string(), dlerror()));
    }
    return get();
  }
  return fail(
      ErrorKind::not_found,
      fmt::format(
          "this machine has a GPU, but {} is neither beside the program in {} nor in ../lib: use the CUDA build "
          "of the worker, or set CUDA_VISIBLE_DEVICES=-1 to train on the CPU",
          module_name, folder.string()));
}

}  // namespace trainyard::dist

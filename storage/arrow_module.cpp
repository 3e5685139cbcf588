#include "storage/arrow_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

namespace trainyard::storage {
namespace {

constexpr std::string_view arrow_module_name = "libtrainyard_arrow.so";

}  // namespace

Result<const ArrowModule*> load_arrow_module(const std::filesystem::path& folder) {
  for (const auto& path : {folder / arrow_module_name, folder.parent_path() / "lib" / arrow_module_name}) {
    if (!std::filesystem::exists(path)) continue;
    // Never unloaded: Arrow has threads. Local, so that nothing of Arrow's meets the program's own libraries.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
      return fail(ErrorKind::invalid, fmt::format("{} does not load: {}", path.string(), dlerror()));
    }
    using Get = const ArrowModule* (*)();
    const auto get = reinterpret_cast<Get>(dlsym(module, "trainyard_arrow_module"));
    if (get == nullptr) {
      return fail(ErrorKind::invalid,
                  fmt::format("{} is of another version of Trainyard: {}", path.string(), dlerror()));
    }
    return get();
  }
  return fail(ErrorKind::invalid,
              fmt::format("gs:// and az:// need {}, which is neither in {} nor in ../lib beside it: run scripts/setup "
                          "clouds, which installs Arrow, and build again, or use an image of the worker that has it",
                          arrow_module_name, folder.string()));
}

std::filesystem::path program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

}  // namespace trainyard::storage

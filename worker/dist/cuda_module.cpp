#include "worker/dist/cuda_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "common/try.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::dist {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view module_name = "libtrainyard_cuda.so";

}  // namespace

std::vector<fs::path> cuda_module_places(const std::optional<std::string>& named, const fs::path& program_folder,
                                         const std::optional<std::string>& launcher_folder) {
  if (named) return {*named};
  std::vector<fs::path> places;
  const auto add = [&](const fs::path& folder) {
    const fs::path place = folder / module_name;
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  };
  add(program_folder);
  add(program_folder.parent_path() / "lib");
  if (launcher_folder) {
    add(*launcher_folder);
    add(fs::path{*launcher_folder}.parent_path() / "lib");
  }
  add("/usr/local/bin");
  add("/usr/local/lib");
  return places;
}

Result<fs::path> first_existing(const std::vector<fs::path>& places) {
  std::error_code error;
  const auto found = std::ranges::find_if(places, [&](const fs::path& place) { return fs::exists(place, error); });
  if (found != places.end()) return *found;
  std::vector<std::string> texts;
  for (const fs::path& place : places) texts.push_back(place.string());
  return fail(ErrorKind::not_found, fmt::format("there is no {} ({} names the file where it is elsewhere)",
                                                fmt::join(texts, ", no "), env_cuda_module));
}

Result<fs::path> find_cuda_module(const rank::Environment& environment) {
  std::error_code error;
  const fs::path program_folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  return first_existing(
      cuda_module_places(environment(env_cuda_module), program_folder, environment(rank::env_launcher_folder)));
}

Result<const CudaModule*> load_cuda_module(const rank::Environment& environment) {
  const auto path = TRY(find_cuda_module(environment));
  // Never unloaded, because torch keeps pointers into it. RTLD_GLOBAL, because torch looks its registrations up by
  // name.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr)
    return fail(ErrorKind::internal, fmt::format("{} does not load: {}", path.string(), dlerror()));
  using Get = const CudaModule* (*)();
  const auto get = reinterpret_cast<Get>(dlsym(module, "trainyard_cuda_module_2"));
  if (get == nullptr) {
    return fail(ErrorKind::internal,
                fmt::format("{} is of another version of Trainyard: {}", path.string(), dlerror()));
  }
  return get();
}

}  // namespace trainyard::dist

#include "tests/paths/paths.hpp"

namespace trainyard::paths {

std::string source(std::string_view path) {
  return SOURCE_FOLDER "/" + std::string{path};
}

std::string build(std::string_view path) {
  return BUILD_FOLDER "/" + std::string{path};
}

std::string program(std::string_view name) {
  return build("bin/" + std::string{name});
}

std::string torch_python() {
  return TORCH_PYTHON;
}

}  // namespace trainyard::paths

#pragma once

#include <cstdlib>
#include <string>

#include "tests/paths/paths.hpp"
#include "tests/skips.hpp"

namespace trainyard::checkpoint {

/// For SetUp() to return with: the test cannot run where Python lacks what these tests compare ours with.
inline void need_safetensors() {
  // It comes with the full set of wheels, which `import torch` needs.
  const std::string finds = " -c 'import importlib.util as u; exit(u.find_spec(\"safetensors\") is None)' 2>/dev/null";
  if (std::system((paths::torch_python() + finds).c_str()) != 0)
    tests::cannot_run("Python's safetensors is missing: scripts/setup test installs it");
}

}  // namespace trainyard::checkpoint

#pragma once

#include <string>
#include <string_view>

/// Where this build lies. Compiled into one small file only: everything else is the same in every clone, so that a
/// second one finds it in the compiler's cache.
namespace trainyard::paths {

/// `path` under the repository's root.
[[nodiscard]] std::string source(std::string_view path);

/// `path` under the build's folder.
[[nodiscard]] std::string build(std::string_view path);

/// One of the product's programs: "trainyard", "trainyard-worker", ...
[[nodiscard]] std::string program(std::string_view name);

/// A Python that imports torch, for the oracles. Empty in a build without the worker.
[[nodiscard]] std::string torch_python();

}  // namespace trainyard::paths

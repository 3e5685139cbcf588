#pragma once

#include <span>
#include <string_view>

namespace trainyard::cli {

struct OwnModelFile {
  std::string_view name;
  std::string_view text;
};

/// The files of examples/own-model, which are part of this program.
[[nodiscard]] std::span<const OwnModelFile> own_model_files();

}  // namespace trainyard::cli

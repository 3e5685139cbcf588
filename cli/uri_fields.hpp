#pragma once

#include <array>
#include <string_view>

namespace trainyard::cli {

/// Where a TrainingJob's spec may name storage, as JSON pointers.
inline constexpr std::array<std::string_view, 4> uri_fields{"/checkpoint/uri", "/checkpoint/resume",
                                                            "/training/data/uri", "/training/model/weights"};

}  // namespace trainyard::cli

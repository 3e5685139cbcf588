#pragma once

#include <array>
#include <string_view>

namespace trainyard::cli {

/// The fields of a TrainingJob's spec that may hold a storage URI, as JSON pointers.
inline constexpr std::array<std::string_view, 5> uri_fields{
    "/checkpoint/uri", "/checkpoint/resume", "/training/data/uri", "/training/model/weights", "/training/model/uri"};

/// The beginning of a URI for a folder of this machine.
inline constexpr std::string_view file_scheme = "file://";

}  // namespace trainyard::cli

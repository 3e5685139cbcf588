#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/result.hpp"

namespace trainyard::data {

/// The bytes of a regular file. not_found: there is none. invalid: it is no regular file, is empty, or has more than
/// `bytes_max`, in which case nothing is read. io: it cannot be read.
[[nodiscard]] Result<std::vector<std::uint8_t>> read_file(const std::filesystem::path& path, std::int64_t bytes_max);

}  // namespace trainyard::data

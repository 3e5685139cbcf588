#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::storage {

/// What Arrow's words for a failure mean: the kind is what the caller can do, the message holds `doing`, the cloud's
/// code and words, and advice where there is any. Arrow has one status for nearly everything, so that the codes are
/// read out of its words: "google::cloud::Status(NOT_FOUND: ...)", "... Azure Error: [BlobNotFound] 404 ...".
/// `errno_value`: the one that the status carries, if any. `secret` is never repeated. Pure.
[[nodiscard]] Error arrow_error(std::string_view doing, const std::string& words, std::optional<int> errno_value,
                                std::string_view secret);

}  // namespace trainyard::storage

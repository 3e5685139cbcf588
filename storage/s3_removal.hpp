#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/http_message.hpp"
#include "storage/s3_config.hpp"

/// DeleteObjects removes many objects by one request. All functions here are pure.
namespace trainyard::storage {

inline constexpr std::size_t removed_keys_max = 1'000;  ///< In one request, by S3's manual.

/// The request's body for `objects`, which are keys in the bucket. It asks for a reply that lists errors only.
[[nodiscard]] std::string removal_text(std::span<const std::string> objects);

/// Success when `reply`, a 2xx, says that every object was removed or did not exist. Otherwise the error of one object
/// that still exists, a final error before a transient one. The message names that object and the number of the others.
[[nodiscard]] Result<void> check_removal(const HttpReply& reply, std::string_view doing, const S3Config& config);

/// True when `reply`, which is no 2xx, means that the server does not know DeleteObjects in this form.
[[nodiscard]] bool is_without_removal(const HttpReply& reply);

}  // namespace trainyard::storage

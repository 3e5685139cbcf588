#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/http_message.hpp"
#include "storage/s3_config.hpp"

/// DeleteObjects: many objects removed by one request. All of it is pure.
namespace trainyard::storage {

inline constexpr std::size_t removed_keys_max = 1'000;  ///< Of one request, by S3's manual.

/// The request's body for `objects`, which are named under the bucket; the server answers the errors only.
[[nodiscard]] std::string removal_text(std::span<const std::string> objects);

/// Success when a 2xx `reply` says that every object is removed or was not there. Else the error of the objects that
/// are still there: a final one where there is one, else a transient one. Its message names the object and counts the
/// others.
[[nodiscard]] Result<void> check_removal(const HttpReply& reply, std::string_view doing, const S3Config& config);

/// True when `reply`, which is no 2xx, means that the server has no DeleteObjects, or none as it is asked for here.
[[nodiscard]] bool is_without_removal(const HttpReply& reply);

}  // namespace trainyard::storage

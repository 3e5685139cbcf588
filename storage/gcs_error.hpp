#pragma once

#include <string_view>

#include "common/result.hpp"
#include "storage/gcs_settings.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// The error that `reply`, a refusal by the JSON or the XML API of Google Cloud Storage, means. The message holds
/// `doing`, the server's text, and advice where there is any, but no secret. Pure, except that it asks `settings` for
/// the tokens to hide.
[[nodiscard]] Error gcs_error(const HttpReply& reply, std::string_view doing, const GcsSettings& settings);

/// True when the server says that the bucket, and not the object, does not exist.
[[nodiscard]] bool is_missing_gcs_bucket(const HttpReply& reply);

}  // namespace trainyard::storage

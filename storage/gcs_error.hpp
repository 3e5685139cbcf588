#pragma once

#include <string_view>

#include "common/result.hpp"
#include "storage/gcs_settings.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// The error that a refusal of Google Cloud Storage means, by its JSON or its XML API: the kind is what the
/// caller can do, the message holds `doing`, the server's words, and advice where there is any. Never a secret. Pure,
/// except that it asks `settings` for the tokens to leave out.
[[nodiscard]] Error gcs_error(const HttpReply& reply, std::string_view doing, const GcsSettings& settings);

/// True when the server says that it is the bucket that is not there, and not the object.
[[nodiscard]] bool is_missing_gcs_bucket(const HttpReply& reply);

}  // namespace trainyard::storage

#pragma once

#include <string_view>

#include "common/result.hpp"
#include "storage/http_message.hpp"
#include "storage/s3_config.hpp"

namespace trainyard::storage {

/// The error that `reply` means: a refusal, or a reply of status 200 that holds an error. The message holds `doing`,
/// the server's code and text, and advice where there is any, but no secret, even if the server repeats one. Pure.
[[nodiscard]] Error s3_error(const HttpReply& reply, std::string_view doing, const S3Config& config);

/// True when `reply`, to a request with checksum headers, may mean that the server does not know these headers: it says
/// so, or it answers 501 without naming another header. False for a checksum that does not match. Pure.
[[nodiscard]] bool may_refuse_checksums(const HttpReply& reply);

}  // namespace trainyard::storage

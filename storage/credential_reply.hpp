#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/http_message.hpp"
#include "storage/sigv4.hpp"

/// What the servers that give credentials say. Pure. No message holds a secret: only a server's code and words are
/// repeated, and of a good reply nothing.
namespace trainyard::storage {

/// The key in STS's XML reply to AssumeRoleWithWebIdentity. Errors: throttled and unavailable for what may pass;
/// unauthorized when it refuses the token or the role; invalid for a reply that is not STS's. `token`: what was sent,
/// which is never repeated.
[[nodiscard]] Result<Credentials> parse_sts_reply(const HttpReply& reply, std::string_view token);

/// The key in the JSON of the container agents (ECS, EKS pod identity) and of IMDS. Errors as above.
/// `secret`: what was sent, which is never repeated.
[[nodiscard]] Result<Credentials> parse_json_reply(const HttpReply& reply, std::string_view secret);

/// What another reply than 2xx of these servers means, as above.
[[nodiscard]] Error refusal_of(const HttpReply& reply, std::string_view secret);

}  // namespace trainyard::storage

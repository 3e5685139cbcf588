#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/http_message.hpp"
#include "storage/sigv4.hpp"

/// What the servers that give credentials say. Pure. No message holds a secret: only a server's code and words are
/// repeated, and of a good reply nothing.
namespace trainyard::storage {

/// The key in STS's XML reply to AssumeRoleWithWebIdentity or AssumeRole. Errors: throttled and unavailable for what
/// may pass, among it 403 for a role that may be seconds old; unauthorized when what was sent is wrong; invalid for a
/// reply that is not STS's. `token`: what was sent, which is never repeated.
[[nodiscard]] Result<Credentials> parse_sts_reply(const HttpReply& reply, std::string_view token);

/// The key in the JSON of the container agents (ECS, EKS pod identity) and of IMDS. Errors as above.
/// `secret`: what was sent, which is never repeated.
[[nodiscard]] Result<Credentials> parse_json_reply(const HttpReply& reply, std::string_view secret);

/// The key in the JSON of SSO's GetRoleCredentials. Errors as above, but that 401 and 403 mean that the login is over
/// or the role is not this user's. `token`: what was sent, which is never repeated.
[[nodiscard]] Result<Credentials> parse_sso_reply(const HttpReply& reply, std::string_view token);

/// The key in what a credential_process wrote. Errors: invalid for what is not its JSON.
[[nodiscard]] Result<Credentials> parse_process_output(std::string_view text);

/// The error that a reply other than 2xx of these servers means, as above.
[[nodiscard]] Error refusal_of(const HttpReply& reply, std::string_view secret);

}  // namespace trainyard::storage

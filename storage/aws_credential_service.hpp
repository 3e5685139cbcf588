#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "common/result.hpp"
#include "storage/http_client.hpp"
#include "storage/http_message.hpp"
#include "storage/sigv4.hpp"

/// Asks the servers that give credentials, and reads their replies. No message holds a secret: messages repeat the code
/// and text of a refusal only.

namespace trainyard::storage {

/// The key in STS's XML reply to AssumeRoleWithWebIdentity or AssumeRole. Errors: throttled and unavailable when a
/// later try may succeed, also for 403, since the role may be seconds old; unauthorized when the request is wrong;
/// invalid when the reply is not from STS. `token` is the token that was sent; no message repeats it.
[[nodiscard]] Result<Credentials> parse_sts_reply(const HttpReply& reply, std::string_view token);

/// The key in the JSON of the container agents (ECS, EKS pod identity) and of IMDS. Errors as above.
/// `secret` is the secret that was sent; no message repeats it.
[[nodiscard]] Result<Credentials> parse_json_reply(const HttpReply& reply, std::string_view secret);

/// The key in the JSON of SSO's GetRoleCredentials. Errors as above, except that 401 and 403 mean that the login has
/// ended or that the role is not this user's. `token` is the token that was sent; no message repeats it.
[[nodiscard]] Result<Credentials> parse_sso_reply(const HttpReply& reply, std::string_view token);

/// The key in the JSON output of a credential_process; invalid for any other text.
[[nodiscard]] Result<Credentials> parse_process_output(std::string_view text);

/// The error that a reply other than 2xx of these servers means, as above.
[[nodiscard]] Error refusal_of(const HttpReply& reply, std::string_view secret);

/// The servers that give credentials, and how long one request to them may take. Any thread may call.
struct AwsCredentialService {
  HttpClient http;
  std::chrono::milliseconds deadline;

  /// Makes one request. `parse` judges the reply, of any status.
  template <typename T, typename Parse>
  Result<T> ask(const std::string& doing, HttpRequest request, const Parse& parse) {
    request.deadline = deadline;
    Result<T> answer;
    const HttpCall call{.doing = doing,
                        .make = [&] { return request; },
                        .accept = [&](const HttpReply& reply) -> Result<void> {
                          answer = parse(reply);
                          return answer ? Result<void>{} : fail(doing, answer.error());
                        }};
    if (auto asked = http.perform({&call, 1}, 1); !asked) return tl::unexpected(asked.error());
    return answer;
  }
};

}  // namespace trainyard::storage

#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/credentials.hpp"
#include "storage/environment.hpp"
#include "storage/http_client.hpp"

/// Requests for OAuth 2.0 access tokens, as Google's and Azure's credentials make them.
namespace trainyard::storage {

/// Settings for asking an issuer for a token. The client gives up after `limit`; the request that needs the token then
/// retries.
[[nodiscard]] HttpTuning issuer_tuning(std::chrono::milliseconds limit, const Environment& environment);

/// Makes one request and returns the reply, of any status.
[[nodiscard]] Result<HttpReply> ask_issuer(HttpClient& http, const std::string& doing, const HttpRequest& request);

/// The token in an issuer's JSON reply: `access_token` with `expires_in` (seconds) or `expires_on` (seconds of Unix
/// time), each a number or a text. Errors are those of issuer_error(); invalid for a reply that holds no token. Pure.
[[nodiscard]] Result<AccessToken> parse_token_reply(const HttpReply& reply, Time now,
                                                    std::initializer_list<std::string_view> secrets);

/// The error that an issuer's refusal means: throttled or unavailable when a later try may succeed, otherwise
/// unauthorized. The message holds the issuer's text without `secrets`. Pure.
[[nodiscard]] Error issuer_error(const HttpReply& reply, std::initializer_list<std::string_view> secrets);

/// The text of the file at `path` without blanks around it; unauthorized when it cannot be read or is empty.
[[nodiscard]] Result<std::string> read_secret_file(const std::string& path);

/// True when secrets may be sent to `url`: over https://, or over http:// to this machine. Pure.
[[nodiscard]] bool keeps_secrets(std::string_view url);

/// `url` without its path and query, either of which could hold a secret. Pure.
[[nodiscard]] std::string origin_of(std::string_view url);

}  // namespace trainyard::storage

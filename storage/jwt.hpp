#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"

/// JSON Web Tokens that are signed by an RSA key (RS256). Source: RFC 7515 and RFC 7518, 3.3.
namespace trainyard::storage {

/// "header.claims.signature". `header` and `claims` are JSON; `private_key` is PEM, PKCS #8 or PKCS #1. unauthorized
/// when `private_key` is no RSA key; the message never holds it. Pure but for the cryptography.
[[nodiscard]] Result<std::string> signed_jwt(std::string_view header, std::string_view claims,
                                             std::string_view private_key);

/// Base64 for URLs, without padding (RFC 4648, 5).
[[nodiscard]] std::string encode_base64url(std::string_view bytes);

}  // namespace trainyard::storage

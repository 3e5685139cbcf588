#include "storage/sigv4.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "common/check.hpp"

namespace trainyard::storage {
namespace {

constexpr std::string_view algorithm = "AWS4-HMAC-SHA256";

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// SHA-256 as raw bytes.
std::string hmac_sha256(std::string_view key, std::string_view message) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(), &digest_bytes);
  check(done != nullptr, "OpenSSL computes an HMAC");
  return {reinterpret_cast<const char*>(digest.data()), digest_bytes};
}

std::string single_spaced(std::string_view value) {
  // Remove spaces at both ends, and make several spaces within the value one.
  std::string text;
  for (const char c : value) {
    if (c == ' ' && (text.empty() || text.back() == ' ')) continue;
    text += c;
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string signed_header_names(const SignedParts& request) {
  std::string names;
  for (const auto& [name, value] : request.headers) names += names.empty() ? name : ";" + name;
  return names;
}

std::string signing_key(const Credentials& credentials, const SigningScope& scope, std::string_view day) {
  const std::string day_key = hmac_sha256("AWS4" + credentials.secret_access_key, day);
  return hmac_sha256(hmac_sha256(hmac_sha256(day_key, scope.region), scope.service), "aws4_request");
}

}  // namespace

std::string percent_encoded(std::string_view text, bool keeps_slash) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                          c == '.' || c == '_' || c == '~' || (c == '/' && keeps_slash);
    if (is_plain) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : query) {
    encoded.emplace_back(percent_encoded(name, false), percent_encoded(value, false));
  }
  // Sort by name without the '=' behind it, so that "Param" comes before "Param-3".
  std::sort(encoded.begin(), encoded.end());
  std::string text;
  for (const auto& [name, value] : encoded) text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, value);
  return text;
}

std::string canonical_request(const SignedParts& request) {
  std::string headers;
  for (const auto& [name, value] : request.headers) headers += fmt::format("{}:{}\n", name, single_spaced(value));
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path, canonical_query(request.query), headers,
                     signed_header_names(request), request.payload_hash);
}

std::string amz_date(Time time) {
  return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::string authorization(const SignedParts& request, const Credentials& credentials, const SigningScope& scope,
                          std::string_view date) {
  const std::string_view day = date.substr(0, 8);
  const std::string scope_text = fmt::format("{}/{}/{}/aws4_request", day, scope.region, scope.service);
  const std::string to_sign =
      fmt::format("{}\n{}\n{}\n{}", algorithm, date, scope_text, sha256_text(canonical_request(request)));
  const std::string signature = hexadecimal(hmac_sha256(signing_key(credentials, scope, day), to_sign));
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", algorithm, credentials.access_key_id,
                     scope_text, signed_header_names(request), signature);
}

std::string sha256_text(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), digest.data(), &digest_bytes, EVP_sha256(), nullptr);
  check(done == 1, "OpenSSL computes a SHA-256");
  return hexadecimal({reinterpret_cast<const char*>(digest.data()), digest_bytes});
}

}  // namespace trainyard::storage

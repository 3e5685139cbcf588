#include "storage/server_error.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include "common/http_status.hpp"
#include "common/text.hpp"

namespace trainyard::storage {
namespace {

constexpr std::chrono::seconds retry_after_max{300};

constexpr std::size_t bytes_max = 300;
constexpr std::string_view stars = "***";

void redact(std::string& text, std::string_view secret) {
  if (secret.empty()) return;
  for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + stars.size()))
    text.replace(at, secret.size(), stars);
}

// The digits of a signature or of a key's digest: some servers repeat the whole header that they refuse.
constexpr std::size_t digest_digits = 64;

void redact_digests(std::string& text) {
  const auto is_digit = [](unsigned char c) { return std::isxdigit(c) != 0; };
  for (auto begin = text.begin(); begin != text.end();) {
    const auto first = std::find_if(begin, text.end(), is_digit);
    const auto last = std::find_if_not(first, text.end(), is_digit);
    const auto at = first - text.begin();
    if (static_cast<std::size_t>(last - first) >= digest_digits) {
      text.replace(first, last, stars);
      begin = text.begin() + at + static_cast<std::ptrdiff_t>(stars.size());
    } else {
      begin = last;
    }
  }
}

// Hides the signatures of Azure's SAS tokens. A client may reorder and escape the parts of a token in a URL, so that
// the token as a whole is not found in the text.
void redact_token_signatures(std::string& text) {
  constexpr std::string_view begin = "sig=";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    text.replace(at, std::min(text.find_first_of("&;'\" \n", at), text.size()) - at, stars);
  }
}

template <typename Secrets>
std::string sanitize(std::string text, const Secrets& secrets) {
  for (const std::string_view secret : secrets) redact(text, secret);
  redact_digests(text);
  redact_token_signatures(text);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  while (text.ends_with('.') || text.ends_with(' ')) text.pop_back();
  return keep_beginning(text, bytes_max);
}

}  // namespace

ErrorKind kind_of_status(long status) {
  switch (status) {
    case 409:  // A fault of the server: a conflict with another writer has an error code, which the caller judges.
      return ErrorKind::unavailable;
    case 412:
      return ErrorKind::already_exists;
    case 416:
      return ErrorKind::corrupt;
    case 503:
      return ErrorKind::throttled;
    case 507:
      return ErrorKind::io;
    default:
      return kind_of_http_status(status);
  }
}

std::optional<std::chrono::milliseconds> retry_after_of(const HttpReply& reply) {
  return parse_retry_after(reply.header("retry-after"), retry_after_max);
}

std::string sanitize_server_text(std::string text, std::initializer_list<std::string_view> secrets) {
  return sanitize(std::move(text), secrets);
}

std::string sanitize_server_text(std::string text, std::span<const std::string> secrets) {
  return sanitize(std::move(text), secrets);
}

}  // namespace trainyard::storage

#include "storage/azure_signature.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "common/base64.hpp"
#include "common/check.hpp"

namespace trainyard::storage {

std::string azure_string_to_sign(const AzureSignedParts& request, std::string_view account) {
  const auto header = [&](const char* name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? std::string{} : found->second;
  };
  std::string text = fmt::format("{}\n", request.method);
  for (const char* name : {"content-encoding", "content-language"}) text += fmt::format("{}\n", header(name));
  text += request.body_bytes == 0 ? "\n" : fmt::format("{}\n", request.body_bytes);
  text += fmt::format("{}\n{}\n", header("content-md5"), header("content-type"));
  text += "\n";  // The date, which is signed as x-ms-date.
  for (const char* name : {"if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"}) {
    text += fmt::format("{}\n", header(name));
  }
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-ms-")) text += fmt::format("{}:{}\n", name, value);
  }
  text += fmt::format("/{}{}", account, request.path);
  auto query = request.query;
  std::sort(query.begin(), query.end());
  for (const auto& [name, value] : query) text += fmt::format("\n{}:{}", name, value);
  return text;
}

std::string azure_authorization(const AzureSignedParts& request, std::string_view account, std::string_view key) {
  const std::string text = azure_string_to_sign(request, account);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), digest.data(), &digest_bytes);
  check(done != nullptr, "OpenSSL computes an HMAC");
  return fmt::format("SharedKey {}:{}", account,
                     encode_base64({reinterpret_cast<const char*>(digest.data()), digest_bytes}));
}

std::string azure_date(Time time) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

}  // namespace trainyard::storage
